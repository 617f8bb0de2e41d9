"""Rings that sum the gradients of a strategy's groups, from an arm's scheme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.base.errors import SchemeError, SpecError
from testbed.topologies.call import parse
from testbed.topologies.model import Topology
from testbed.topologies.parameters import bind
from testbed.workloads.kinds.hybrid.plan import Plan, Rings, plan
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.strategy import Holders, Strategy, gradients
from testbed.workloads.sync.schemes import names_of, parameters_named
from testbed.workloads.sync.trees import along

TAKEN = ("ring", "multi_ring")
_FIX = "write scheme: ring, or multi_ring(strides=[1,3]), or multi_ring(permutations=[[0,1,2],[0,2]])"


def planned(scheme: str, topology: Topology, model: Model, strategy: Strategy) -> Plan:
    """Make the plan in which a scheme sums the gradients of each group.

    Raises:
        SpecError, SchemeError: the scheme does not sum in the rings of groups, or lacks those of one.
    """
    rings = _rings(scheme, topology, tuple(gradients(model, strategy)))
    return plan(topology, model, strategy, rings).built_by(scheme)


def _rings(scheme: str, topology: Topology, groups: Sequence[Holders]) -> Rings:
    """Return the rings of groups. ``ring``: one for each group, in the order of its servers.
    ``multi_ring(strides=[1,3])``: one for each stride in each group. ``multi_ring(permutations=[[0,1,2],[0,2]])``: each
    is a ring of the group of the servers that it names."""
    call = parse(scheme, "ring", names_of)
    if call.name not in TAKEN:
        raise SpecError(f"scheme {call.name} does not sum in the groups of a strategy", fix=_FIX)
    arguments: dict[str, Any] = bind(call.name, parameters_named(call.name), call.arguments, SchemeError)
    if arguments.get("members"):
        raise SpecError(
            f"scheme {call.name} gives members, but the strategy decides which servers sum", fix="leave out members"
        )
    if call.name == "ring":
        return {members: [members] for members in groups}
    if bool(arguments.get("strides")) == bool(arguments.get("permutations")):
        raise SpecError("multi_ring takes either strides or permutations", fix=_FIX)
    if arguments.get("strides"):
        return {
            members: [along(topology, call.name, stride, members) for stride in arguments["strides"]]
            for members in groups
        }
    return _named(arguments["permutations"], groups)


def _named(permutations: Sequence[Sequence[int]], groups: Sequence[Holders]) -> Rings:
    """Return the rings of each group: the permutations that pass its servers."""
    found: dict[Holders, list[Sequence[int]]] = {members: [] for members in groups}
    for order in permutations:
        members = tuple(sorted(order))
        if members not in found:
            raise SpecError(
                f"multi_ring: no group of the strategy has the servers of the permutation {list(order)}",
                fix=f"write a permutation of a group: {_shown(groups)}",
            )
        found[members].append(order)
    for members, orders in found.items():
        if not orders:
            raise SpecError(
                f"multi_ring has no permutation of {list(members)}, a group of the strategy",
                fix="add one that names each of these servers once",
            )
    return found


def _shown(groups: Sequence[Holders]) -> str:
    shown = [str(list(members)) for members in groups[:4]]
    return " or ".join(shown) + f" or {len(groups) - 4} others" * (len(groups) > 4)
