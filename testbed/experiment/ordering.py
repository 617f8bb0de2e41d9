"""The network of an arm in the order of ranks that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SpecError
from testbed.base.listing import counted, shortened
from testbed.spec import Arm
from testbed.spec.rank_order import Random, Sought, read
from testbed.topologies.call import parse
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.trial.order_finding import cost
from testbed.workloads.ranks.orders import by_chance
from testbed.workloads.sync.schemes import finding
from testbed.workloads.sync.schemes.registry import UNORDERED


def ordered(arm: Arm, topology: Topology, *, knows_bytes: bool) -> Part | None:
    """Return the hosts of an arm's network by rank; None if the arm has no order. The order of numbers stands in for an
    order that is found in the trial.

    Args:
        knows_bytes: whether it is known how many bytes are reduced.

    Raises:
        SpecError: the scheme takes no order, or the order does not name each host once.
    """
    if arm.order is None:
        return None
    scheme = parse(arm.scheme, "ring").name if arm.scheme else ""
    asked = read(arm.order) if isinstance(arm.order, str) else None
    if scheme in UNORDERED and isinstance(asked, Sought):
        problem = f"order: {asked.name} has no cost for scheme {scheme}, which {UNORDERED[scheme]}"
        raise SpecError(problem, fix="leave order out")
    if scheme in UNORDERED:
        raise SpecError(f"order: scheme {scheme} {UNORDERED[scheme]}", fix="leave order out")
    if isinstance(asked, Random):
        return Part(topology, by_chance(topology.host_count, asked.draw))
    if isinstance(arm.order, list):
        return Part(topology, _named(arm.order, topology))
    assert asked is not None  # it is no list
    cost(arm, asked, topology.host_count)
    if asked.model == "linear" and not (asked.bytes or knows_bytes):
        problem = "order: model=linear needs to know how much the command sends"
        raise SpecError(problem, fix=f"write {asked.name}({asked.first}cost=ring,model=linear,bytes=100000000)")
    if arm.scheme and finding(arm.scheme) is not None:
        problem = f"order: {asked.name} and scheme {arm.scheme} both leave something to be found"
        raise SpecError(problem, fix="write one of them out")
    return Part(topology, tuple(topology.hosts))


def _named(names: Sequence[str], topology: Topology) -> tuple[int, ...]:
    """
    Raises:
        SpecError: a host is not there, is named twice, or is left out.
    """
    number = {topology.nodes[host].name: host for host in topology.hosts}
    fix = f"name each of the {counted(len(number), 'host')} once"
    for name in names:
        if name not in number:
            raise SpecError(f"order names {name}, and {topology.expression} has no host of that name", fix=fix)
        if names.count(name) > 1:
            raise SpecError(f"order names {name} twice", fix=fix)
    if left_out := [name for name in number if name not in names]:
        raise SpecError(f"order leaves out {shortened(left_out, 6)}", fix=fix)
    return tuple(number[name] for name in names)
