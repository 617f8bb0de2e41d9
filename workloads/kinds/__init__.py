"""The kinds of trial: what moves between its processes, and how that is accounted for.

A kind is a folder here, or an entry point ``testbed.kinds`` of an installed package (:mod:`testbed.base.plugins`). Its
``KIND`` is a :class:`testbed.workloads.kinds.base.Kind`. Nobody else asks of which kind a plan is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import OutputError, SchemeError, UsageError
from testbed.base.plugins import with_plugged
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.kinds.parts import P, Sharing
from testbed.workloads.plan import Plan
from testbed.workloads.sync import codec
from testbed.workloads.sync.cost import Cost

if TYPE_CHECKING:
    from testbed.workloads.kinds.measures import Measures  # whose module imports pandas, which planning has no use for

BUILT_IN = {
    **{name: name for name in ("forest", "library", "asynchronous")},
    **{"command": "script.command", "fabric": "fabric", "fabric_sync": "fabric_sync", "hybrid": "hybrid"},
    **{"phub": "phub", "rotation": "rotation", "script": "script", "tuned": "tuned"},
}
"""The names of our kinds, and the module of each below this package: ``command`` is ``script`` without a scheme."""


@cache
def kinds() -> dict[str, AnyKind]:
    """Return all kinds of trial, by name.

    Raises:
        MissingToolError, UsageError: as :func:`testbed.base.plugins.plugged`.
    """
    return with_plugged("kinds", {name: named(name) for name in BUILT_IN})


@cache
def named(name: str) -> AnyKind:
    """Return the kind of that name. Other packages are searched only for a name that is not ours: a search takes a
    worker 40 ms.

    Raises:
        OutputError: there is none.
        MissingToolError, UsageError: as :func:`testbed.base.plugins.plugged`.
    """
    if name in BUILT_IN:
        found: AnyKind = import_module(f"{__name__}.{BUILT_IN[name]}").KIND
        return found
    if name not in kinds():
        raise OutputError(
            f"there is no kind of trial {name!r}; there is {', '.join(kinds())}", fix="install the package that adds it"
        )
    return kinds()[name]


def of(plan: Plan) -> AnyKind:
    """Return the kind of trial that a plan is for."""
    return named(plan.kind)


def of_record(record: Mapping[str, Any]) -> AnyKind:
    """Return the kind of trial that a record is of. Older records do not name it.

    Raises:
        OutputError: it names one that is not installed.
    """
    if record.get("moves"):
        return named(record["moves"])
    return next((kind for kind in map(named, BUILT_IN) if kind.wrote(record)), named("forest"))


def has_iterations(record: Mapping[str, Any]) -> bool:
    """Whether processes of a record's trial tell of their iterations.

    Raises:
        OutputError: as :func:`of_record`.
    """
    return of_record(record).program is None


def measures_of(columns: Iterable[str]) -> Measures:
    """Say what the times in a table of samples with these columns mean: take the kind whose own columns are among them,
    and of several such kinds the one with the most columns.

    Raises:
        UsageError: two kinds have the same columns, and other meanings.
    """
    there, known = set(columns), {name: kind.own_samples.measures for name, kind in kinds().items()}
    fitting = {name: measures for name, measures in known.items() if measures.columns <= there}
    chosen = max(fitting, key=lambda name: len(fitting[name].columns))
    for other, measures in fitting.items():
        if measures.columns == fitting[chosen].columns and type(measures) is not type(fitting[chosen]):
            raise UsageError(
                f"the kinds of trial {chosen} and {other} give the same columns of samples another meaning",
                fix=f"let samples of {other} have a column of their own, or uninstall the package that adds it",
            )
    return fitting[chosen]


def verify(plan: Plan, topology: Topology) -> None:
    """Return only if the plan, on this topology, does what it is for.

    Raises:
        SchemeError: it does not; the text names the class and the node.
    """
    of(plan).verify(plan, topology)


def drawn(plan: Plan, seed: int) -> Plan:
    """Draw by lot, with the experiment's seed, all that the plan leaves to chance, and return that plan."""
    if (lots := of(plan).lots) is None:
        return plan
    drawn_plan: Plan = lots.drawn(plan, seed)
    return drawn_plan


def placed(plan: P, part: Part) -> P:
    """Put a plan that was made for some of a network's hosts into the whole network's numbers of nodes.

    Raises:
        SchemeError: its kind of trial knows no other hosts than all, by number.
    """
    placed_plan: P = _sharing(plan).placed(plan, part)
    return placed_plan


def check_among_others(plan: Plan) -> None:
    """
    Raises:
        SchemeError: its kind of trial needs a network of its own.
    """
    _sharing(plan, among_others=True)


def _sharing(plan: Plan, *, among_others: bool = False) -> Sharing[Any]:
    sharing = of(plan).sharing
    if sharing is None or (among_others and not sharing.among_others):
        raise SchemeError(
            f"scheme {plan.scheme} needs a network of its own",
            fix="take a scheme that sums along trees, such as ring; or give it an arm of its own",
        )
    return sharing


def cost(plan: Plan, topology: Topology, gradient_bytes: float) -> Cost:
    """Compute the cost of one synchronisation; the plan must have passed :func:`verify`.

    Raises:
        TopologyError: two neighbours have no route.
    """
    return of(plan).cost(plan, topology, gradient_bytes)


def save(plan: Plan, path: Path) -> None:
    """Write a plan to one .npz file, under exactly that name.

    Raises:
        OutputError: the file cannot be written.
    """
    codec.write({"kind": plan.kind, **of(plan).encode(plan)}, path)


def load(path: Path) -> Plan:
    """Read what :func:`save` wrote.

    Raises:
        OutputError: the file is missing, holds no plan, or one of another version.
    """
    fields = codec.read(path)
    found: Plan = named(str(fields["kind"])).decode(fields)
    return found
