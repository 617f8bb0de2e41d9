"""Gloo's bcube: halving-doubling with groups of B hosts in place of two."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SchemeError
from testbed.base.listing import shortened
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.trees import digit_trees, over


def bcube(topology: Topology, tensor_sizes: Sequence[int], *, base: int = 2) -> Forest:
    """Groups of B hosts scatter-reduce among themselves, then across groups, log_B N steps each way.

    On any topology: it is named after BCube's digits, not tied to its wires. N is c B^x with 1 <= c <= B: in step i
    hosts that differ in digit i only exchange directly, in the last one c of them. A class is summed at each host; a
    host's parent has its lowest digit that differs set to the root's (a B-nomial tree). Where N has another form, Gloo
    lets hosts work twice; that is no tree, and is refused.

    Source: PHub thesis section 1.1.5, "BCube"; Gloo, gloo/allreduce_bcube.h.
    """
    if base < 2:
        raise SchemeError(f"bcube: base is {base}", fix="give base 2 or more")
    return over(topology, digit_trees(_radices(topology, base)))


def _radices(topology: Topology, base: int) -> list[int]:
    """Return how many hosts meet in each step."""
    rest, radices = topology.host_count, []
    while rest > base and rest % base == 0:
        radices.append(base)
        rest //= base
    if rest > base:
        fitting = [str(b) for b in range(2, topology.host_count + 1) if _fits(topology.host_count, b)]
        raise SchemeError(
            f"bcube: the {topology.host_count} hosts of {topology.expression} are not c x {base}^x with c up to {base}",
            fix=f"take a base that fits: {shortened(fitting, 8)}",
        )
    return [*radices, rest]


def _fits(count: int, base: int) -> bool:
    while count > base and count % base == 0:
        count //= base
    return count <= base
