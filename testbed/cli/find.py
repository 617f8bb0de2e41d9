"""``testbed find``: TopoOpt's circuits and routes for a training job, without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.base.errors import SpecError
from testbed.cli.output import AsJson, print_json, show, table, wrote

if TYPE_CHECKING:
    from testbed.api.finding import Finding


def find(
    job: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model of TopoOpt's section 2.2, dlrm or candle; with --strategy any of its models, such as "
            "dlrm_shared; or a file of transfers, ./job.yaml.",
        ),
    ],
    servers: Annotated[
        int | None, typer.Option(metavar="N", help="Servers of a model; default: 16.", show_default=False)
    ] = None,
    degree: Annotated[int, typer.Option(metavar="D", help="Interfaces of each server.")] = 4,
    select: Annotated[
        str, typer.Option(metavar="HOW", help="How to choose rings: geometric, or mp (the paper's TopPermutations).")
    ] = "geometric",
    paths: Annotated[
        int,
        typer.Option(metavar="K", help="Routes of each MP transfer between servers that no circuit joins, at most."),
    ] = 1,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="STRATEGY",
            help="Servers that hold each operator: data, search(steps=2000), {e0: [0], rest: all}, or a file of that; "
            "default: what section 2.2 says.",
            show_default=False,
        ),
    ] = None,
    cut: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="With --strategy: cut each embedding table into so many by columns; default: 1.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="With --strategy or --baselines: rate of each circuit; default: 25 Gbit/s.",
            show_default=False,
        ),
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(
            metavar="PACE", help="With --strategy: what each server computes; default: 10 TFLOP/s.", show_default=False
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="With --strategy: memory of each server; default: 40 GB.", show_default=False
        ),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines", help="Compare with the paper's other networks: rates, costs, and predictions; default: no."
        ),
    ] = False,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Draw the circuits into this file; default: no drawing.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find circuits and routes for a training job (TopoOpt).

    It lists shares, rings, circuits, hops and bandwidth tax, and ends with an arm for a spec. With --strategy it
    predicts an iteration, too.
    """
    from testbed.api.finding import find as found_for
    from testbed.api.hybrid import Hybrid

    alone = _given(cut=cut, pace=pace, memory=memory)
    if strategy is None:
        _refuse(alone, "--strategy")
    if strategy is None and not baselines:
        _refuse(_given(rate=rate), "--strategy or --baselines")
    hybrid = None if strategy is None else Hybrid(strategy, **alone, **_given(rate=rate))
    made = found_for(job, servers, degree, select=select, paths=paths, hybrid=hybrid)
    if draw:
        made.draw().save(draw)
    compared = made.baselines(**_given(rate=rate)) if baselines else []
    if as_json:
        print_json({**made.facts, **({"baselines": compared} if baselines else {})})
        return
    show(*_text(made), *_baselines(compared, degree))
    if draw:
        wrote("picture", draw)


def _given(**options: Any) -> dict[str, Any]:
    """Options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse(given: Iterable[str], without: str) -> None:
    """
    Raises:
        SpecError: nothing would use an option that was given, without others.
    """
    for name in given:
        raise SpecError(f"--{name} needs {without}", fix=f"add --strategy data, or leave out --{name}")


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
        *_hybrid(made),
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
    """Rows of the groups; rings that no group asked for come first."""
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


def _hybrid(made: Finding) -> list[str]:
    from testbed.base.units import time_text

    if made.plan is None:
        return []
    facts = made.plan.facts
    path = [(what, where, time_text(start), time_text(end)) for what, where, start, end in made.plan.stages]
    lines = [
        "",
        f"strategy: {facts['strategy']}",
        f"prediction: {time_text(facts['iteration_s'])} an iteration, with circuits of {facts['rate']} and servers of "
        f"{facts['pace']}",
        *(f"assumed: {one}" for one in facts["assumed"]),
        "",
        table(("critical path", "where", "from", "to"), path, left=2),
    ]
    if facts["search"] is None:
        return lines
    costs = [(f"{step:,}", time_text(seconds)) for step, seconds in facts["search"]["costs_s"]]
    return [*lines, "", table((f"best of {facts['search']['steps']:,} steps, at", "iteration"), costs, left=0)]


def _baselines(compared: list[dict[str, Any]], degree: int) -> list[str]:
    """Lines about each network, then about those that there are not, and where B' is (TopoOpt, section 5.1)."""
    from testbed.base.units import rate_text

    if not compared:
        return []
    rows = [_baseline(one) for one in compared if one["problem"] is None]
    lines = ["", table(("network", "links of", "$ a server", "iteration", "expression"), rows, left=1)]
    lines += ["", *(f"{one['name']} needs perturb: [{one['perturb']}]" for one in compared if one["perturb"])]
    lines += [*(f"no {one['name']}: {one['problem']}" for one in compared if one["problem"])]
    own_bps = compared[0]["rate_bps"]
    same_bps = next(one["rate_bps"] for one in compared if one["name"] == "cost-equivalent")
    if same_bps is not None:
        above = "above" if same_bps > degree * own_bps else "below"
        lines.append(f"B' of the cost-equivalent network is {rate_text(same_bps / degree)}, {above} B")
    return lines


def _baseline(one: dict[str, Any]) -> tuple[str, str, str, str, str]:
    from testbed.base.units import rate_text, time_text

    iteration = "-" if one["iteration_s"] is None else time_text(one["iteration_s"])
    expression = one["topology"] if len(one["topology"]) < 60 else "as above"
    dollars = "-" if one["dollars_per_server"] is None else f"{one['dollars_per_server']:,.0f}"
    return one["name"], rate_text(one["rate_bps"]), dollars, iteration, expression


def _arm(made: Finding) -> list[str]:
    arm, facts = made.arm, made.facts
    if made.hybrid_arm is not None:
        again = "" if "scheme" in made.hybrid_arm else ", for which the same is found"
        quoted = {key: f'"{one}"' if key in ("topology", "scheme") else one for key, one in made.hybrid_arm.items()}
        keys = ", ".join(f"{key}: {one}" for key, one in quoted.items())
        return ["", f"an arm for a spec{again}:", "", f"  - {{{keys}}}"]
    left_out = [
        f"{facts['routes_left_out']:,} routes are left out here: with them the expression is longer than one may be."
    ] * bool(facts["routes_left_out"])
    if arm is None:
        why = (
            "without a strategy no scheme sums in groups that leave servers out"
            if made.plan is None
            else "without routes"
        )
        return ["", f"the network ({why}):", "", facts["topology"], *left_out]
    is_data = made.plan is None or made.plan.is_data
    note = "" if is_data else " (its scheme reduces all gradients among all servers)"
    return [
        "",
        f"an arm for a spec{note}:",
        "",
        f'  - {{topology: "{arm["topology"]}", scheme: "{arm["scheme"]}"}}',
        *left_out,
    ]
