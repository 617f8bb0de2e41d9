"""Least times of schemes on networks, for claims that compare them."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads import kinds
from testbed.workloads.sync.schemes import build_plan

RATE_BPS = 10**8


def network(topology: str) -> Topology:
    return build(topology, rate_bps=RATE_BPS)


def bound_s(topology: str, scheme: str, order: Sequence[int] = ()) -> float:
    """Return the least GST of a gradient of 1 byte; ``order`` has the hosts by rank, if not by number."""
    net = network(topology)
    part = Part(net, tuple(order) or tuple(net.hosts))
    plan = kinds.placed(build_plan(scheme, part.topology, []), part)
    return kinds.cost(plan, net, 1.0).bound_s()
