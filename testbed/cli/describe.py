"""``testbed topo``, ``forest``, ``schemes``, ``models`` and ``doctor``: what there is, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.base import exits
from testbed.base.units import rate_text
from testbed.cli.output import AsJson, print_json, show, table, wrote

if TYPE_CHECKING:
    from testbed.lab.place import Prerequisite
    from testbed.workloads.catalogue import Entry

TopologyText = Annotated[
    str,
    typer.Argument(metavar="TOPOLOGY", help="A topology, such as 'star(hosts=9)', 'bcube(n=3,k=2)' or net.graphml."),
]
TreesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.svg",
        help="Draw its trees into this file, if its sums are right; default: no drawing.",
        show_default=False,
    ),
]
PricesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.yaml", help="Take prices from this file; default: TopoOpt's Table 3.", show_default=False
    ),
]
Rate = Annotated[str, typer.Option(metavar="RATE", help="Rate of the hosts' links.")]
LinksText = Annotated[
    str | None,
    typer.Option(metavar="YAML", help="Links that differ, such as '{h0: {rate: 100 Mbit/s}}'; default: none."),
]


def topo(
    topology: TopologyText,
    rate: Rate = "1 Gbit/s",
    links: LinksText = None,
    draw: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw it into this file; default: no drawing.", show_default=False),
    ] = None,
    prices: PricesFile = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="Print it as graphml, clab (containerlab) or infragraph, in place of all else; default: no file.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a topology, draw it, and say what it costs.

    It lists switches, ports, links and bisection, and the prices of NICs, switch ports, transceivers and cables. Of a
    file of another tool (GraphML, GML, containerlab, InfraGraph) it also says what was left out.
    """
    from testbed.api.topology import topology as build
    from testbed.base.errors import UsageError

    if form and (draw or prices or as_json):
        raise UsageError("--as prints a file, and nothing else", fix="remove --draw, --prices and --json")
    network = build(topology, rate, links)
    if form:
        print(network.written_as(form), end="")
        return
    cost, found = network.cost(prices), network.facts
    if draw:
        network.draw().save(draw)
    if as_json:
        print_json({**found, "cost": cost})
        return
    notes = found.get("notes", [])
    rows = [
        (key.removesuffix("_bps").removesuffix("_s").replace("_", " "), _cell(key, value))
        for key, value in found.items()
        if key != "notes"
    ]
    width = max(len(name) for name, _ in rows)
    show(
        *(f"{name.ljust(width)}  {cell}" for name, cell in rows),
        "",
        str(network),
        "",
        _cost(cost, found["link_rates_bps"]),
        *(["", "of the file:", *(f"  {note}" for note in notes)] if notes else []),
    )
    if draw:
        wrote("picture", draw)


def _cost(cost: dict[str, Any], rates_bps: Sequence[int]) -> str:
    """Print the bill as columns, and which rates of links no part has."""
    names = " ".join(one["item"] for one in cost["items"])
    unsold = [rate_text(rate) for rate in rates_bps if f" {rate / 1e9:g} Gbit/s" not in names]
    rows = [
        (one["item"], f"{one['count']:,}", f"${one['each']:,g}", f"${one['total']:,.0f}", f"{one['total'] / whole:.0%}")
        for whole in [cost["total"] or 1]
        for one in cost["items"]
    ]
    each = f"total ${cost['total']:,.0f}, ${cost['per_host']:,.0f} a host"
    told = [
        f"no part of {rate} has a price: the next faster one is taken, or several of the fastest" for rate in unsold
    ]
    return "\n".join([table(("part", "count", "each", "cost", "of all"), rows), *told, f"{each} ({cost['source']})"])


def forest(
    scheme: Annotated[str, typer.Argument(metavar="SCHEME", help="A scheme, such as ring or 'ps(place=tensor)'.")],
    topology: TopologyText,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Synchronise this model's gradient; default lenet5.")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--bytes", metavar="N", min=4, help="Synchronise this many bytes, in place of a model's gradient."
        ),
    ] = None,
    rate: Rate = "1 Gbit/s",
    links: LinksText = None,
    mtu: Annotated[int, typer.Option(metavar="N", min=576, max=9000, help="MTU of the links, in bytes.")] = 1500,
    draw: TreesFile = None,
    klass: Annotated[
        int | None,
        typer.Option("--class", metavar="N", help="Draw only class N; default: all, if they are 9 or fewer."),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            metavar="NODE",
            help="Print what this node does with a chunk of each class, in place of all else; default: no schedule.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a scheme does on a topology, and draw it.

    It lists classes, rounds, bytes, the load of links and the least GST, and says whether the sums are right.
    """
    from testbed.api.forest import check_order, proposed
    from testbed.api.topology import topology as build
    from testbed.base.errors import UsageError
    from testbed.workloads import kinds

    if model and size:
        raise UsageError("--model and --bytes exclude each other", fix="give one of them")
    if klass is not None and draw is None:
        raise UsageError("--class says what to draw, and --draw is missing", fix="add --draw FILE.svg")
    check_order(scheme, topology)
    made = proposed(scheme, build(topology, rate, links), model, size, mtu)
    if node is not None:
        kinds.verify(made.model, made.topology.model)
        _show_schedule(made.schedule(node), as_json)
        return
    found = made.facts
    drawn = draw if found["verified"] else None
    if drawn:
        made.picture(klass).save(drawn)
    if as_json:
        print_json(found)
    else:
        show(made.text(table))
        if drawn:
            wrote("picture", drawn)
    raise typer.Exit(exits.OK if found["verified"] else exits.BAD_SPEC_OR_USAGE)


def _show_schedule(actions: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(actions)
        return
    columns = ("number", "klass", "what", "nodes", "after")
    cells = [{**one, **{name: ", ".join(map(str, one[name])) for name in ("nodes", "after")}} for one in actions]
    rows = [[str(cell[name]) for name in columns] for cell in cells]
    told = table(("action", "class", "what", "nodes", "after"), rows)
    show(told if rows else "nothing: it passes on what others send each other")


def schemes(
    scheme: Annotated[str | None, typer.Argument(metavar="SCHEME", help="Only this scheme.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the synchronisation schemes."""
    from testbed.base.errors import UsageError
    from testbed.base.nearest import nearest
    from testbed.workloads.sync.schemes import schemes as registry

    every = registry()
    if scheme is not None and scheme not in every:
        raise UsageError(f"there is no scheme {scheme!r}", fix=nearest(scheme, list(every)))
    known = [every[scheme]] if scheme else every.values()
    if as_json:
        print_json(
            [
                {"name": one.name, "doc": one.doc, "source": one.source, "parameters": [str(p) for p in one.parameters]}
                for one in known
            ]
        )
        return
    rows = [(one.name, ", ".join(map(str, one.parameters)), one.doc.replace("``", ""), one.source) for one in known]
    show(table(("scheme", "parameters", "what it does", "source"), rows, left=4, spare=("source",)))
    show("\nYour own: scheme: ./mine.py:my_scheme, a function (topology, tensor_sizes) -> Forest")


def models(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Only this model; also one of your own, './net.py:Net(classes=10)'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, their sizes and their sources.

    The list says which models can be trained. The others are played back, by a workload of kind profile.
    """
    from testbed.workloads.catalogue import entry
    from testbed.workloads.catalogue import models as catalogue
    from testbed.workloads.profiles import TABLE_6_1

    found = [entry(model)] if model else catalogue()
    if as_json:
        print_json([asdict(one) for one in found])
        return
    header = ("model", "what it is", "trained on", "times", "parameters", "bytes", "MiB", "layers", "tensors")
    show(table(header, map(_model_row, found), left=4, spare=("bytes", "tensors", "layers", "times")))
    show("\nModels without a data set are played back: workload kind profile. Bytes are float32.")
    show(f"Times are those of a batch, forward and backward: {TABLE_6_1}. Give others in the spec: compute.pace")


def _model_row(one: Entry) -> list[str]:
    times = ", ".join(f"{batch}: {1e3 * seconds:g} ms" for batch, seconds in one.times_s.items())
    known = [one.name, one.doc, ", ".join(one.datasets) or "-", times or "-"]
    return [
        *known,
        f"{one.parameters:,}",
        f"{one.bytes:,}",
        f"{one.bytes / 2**20:.1f}",
        f"{one.layers}",
        f"{one.tensors}",
    ]


def doctor(
    capacity: Annotated[
        bool, typer.Option("--capacity", help="Measure how much traffic this machine can carry; takes half a minute.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="With --capacity: measure only if that is not known yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what this machine can do, and what it lacks.

    A command that enables it stands below each thing that it cannot do. The exit code is 2 if no experiment can run.
    """
    from testbed.base.errors import UsageError
    from testbed.capacity.doctor import checks
    from testbed.cli.capacity import measured

    if once and not capacity:
        raise UsageError("--once works only with --capacity", fix="add --capacity")
    if capacity:
        measured(once, as_json)
        return

    found = checks()
    if as_json:
        print_json([asdict(check) for check in found])
    else:
        _print_checks(found)
    if any(check.needed and not check.ok for check in found):
        raise typer.Exit(exits.BAD_SPEC_OR_USAGE)


def _print_checks(found: Sequence[Prerequisite]) -> None:
    width = max(len(check.name) for check in found)
    for check in found:
        show(f"{'ok' if check.ok else 'no':3}{check.name.ljust(width)}  {check.detail}")
        if not check.ok and check.fix:
            show(f"{'':3}{'':{width}}  fix: {check.fix}")
    lacking = [check.name for check in found if check.needed and not check.ok]
    show(f"\nno experiment can run here: {', '.join(lacking)}" if lacking else "\nexperiments can run here")


def _cell(key: str, value: object) -> str:
    from testbed.base.units import time_text

    if isinstance(value, dict):
        return ", ".join(f"{level}: {count}" for level, count in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(_cell(key, item) for item in value) or "-"
    if isinstance(value, int | float) and key.endswith("_bps"):
        return rate_text(value)
    if key == "fat_tree_switches":
        return f"{value:g} (5 N / n, of as many hosts and ports)"
    if isinstance(value, float) and key.endswith("_s"):
        return time_text(value)
    if value is None:
        return "no closed form" if key == "bisection_bps" else "-"
    return str(value)
