"""``testbed find``: TopoOpt's circuits and routes for a training job, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.cli.output import AsJson, print_json, show, table, wrote

if TYPE_CHECKING:
    from testbed.api.finding import Finding


def find(
    job: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model of TopoOpt's section 2.2, dlrm or candle, or a file of transfers, ./job.yaml.",
        ),
    ],
    servers: Annotated[
        int | None, typer.Option(metavar="N", help="Servers of a model; default: 16.", show_default=False)
    ] = None,
    degree: Annotated[int, typer.Option(metavar="D", help="Interfaces of each server.")] = 4,
    select: Annotated[
        str, typer.Option(metavar="HOW", help="How to choose rings: geometric, or mp (the paper's TopPermutations).")
    ] = "geometric",
    paths: Annotated[int, typer.Option(metavar="K", help="Routes of each MP transfer.")] = 1,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Draw the circuits into this file; default: no drawing.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find circuits and routes for a training job (TopoOpt).

    It lists shares, rings, circuits, hops and bandwidth tax, and ends with an arm for a spec.
    """
    from testbed.api.finding import find as found_for

    made = found_for(job, servers, degree, select=select, paths=paths)
    if draw:
        made.draw().save(draw)
    if as_json:
        print_json(made.facts)
        return
    show(*_text(made))
    if draw:
        wrote("picture", draw)


def _text(made: Finding) -> list[str]:
    facts = made.facts
    rows = _rows(facts)
    width = max(len(name) for name, _ in rows)
    lines = [f"{name.ljust(width)}  {text}" for name, text in rows]
    return [
        *lines,
        "",
        table(("group", "members", "sends", "strides"), _groups(made), left=1),
        *_circuits(facts),
        *_arm(made),
    ]


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    from testbed.base.units import size_text

    hops = facts["mp_hops"]
    by_hops = ", ".join(f"{count} over {length}" for length, count in hops["transfers"].items())
    mean = "none" if hops["mean"] is None else f"{hops['mean']:.3f} in the mean, weighted by bytes ({by_hops})"
    return [
        ("servers", f"{facts['servers']}, with {facts['degree']} interfaces each, {facts['dark_ports']} of all dark"),
        ("AllReduce", f"{size_text(facts['allreduce_bytes'])}, {facts['allreduce_share']:.3f} of all bytes"),
        ("MP transfers", size_text(facts["mp_bytes"])),
        ("hops", f"{facts['mean_hops']:.2f} in the mean over all pairs, at most {facts['diameter']}"),
        ("hops of MP", mean),
        ("bandwidth tax", f"{facts['bandwidth_tax']:.3f}"),
    ]


def _groups(made: Finding) -> list[tuple[str, str, str, str]]:
    """Each group; rings that no group asked for come first."""
    from testbed.base.units import size_text

    strides: dict[int | None, list[str]] = {}
    for ring in made.facts["rings"]:
        strides.setdefault(ring["group"], []).append(str(ring["stride"]))
    groups = made.found.job.groups
    joining = [("-", str(made.facts["servers"]), "joins all", ", ".join(strides[None]))] if None in strides else []
    return joining + [
        (str(i), str(len(one.members)), size_text(one.transfer_bytes), ", ".join(strides.get(i, ["none"])))
        for i, one in enumerate(groups)
    ]


def _circuits(facts: dict[str, Any]) -> list[str]:
    panels = [" ".join(f"{a}-{b}" for a, b in panel) or "none" for panel in facts["mp_circuits"]]
    return [
        "",
        *(f"circuits for MP, panel {facts['degree'] - len(panels) + i}: {text}" for i, text in enumerate(panels)),
    ] * bool(panels)


def _arm(made: Finding) -> list[str]:
    arm, facts = made.arm, made.facts
    left_out = [
        f"{facts['routes_left_out']:,} routes are left out here: with them the expression is longer than one may be."
    ] * bool(facts["routes_left_out"])
    if arm is None:
        return ["", "the network (no scheme reduces in these groups yet):", "", facts["topology"], *left_out]
    return [
        "",
        "an arm for a spec:",
        "",
        f'  - {{topology: "{arm["topology"]}", scheme: "{arm["scheme"]}"}}',
        *left_out,
    ]
