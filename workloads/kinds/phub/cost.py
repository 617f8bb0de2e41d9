"""Cost of a synchronisation through a box, and its lower bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Floats
from testbed.workloads.kinds.phub.plan import Plan, Way
from testbed.workloads.sync.cost import IDEAL, Cost, Shaper, cost_of_flows
from testbed.workloads.sync.flows import Flows

Moved = dict[Way, float]
"""Bytes that workers send boxes, by connection; as many come back."""


@dataclass(frozen=True, eq=False)
class BoxCost(Cost):
    """Cost of a synchronisation whose pieces go out only when they have come.

    A piece is a key, or with wide aggregation a layer. Each link to a box has all bytes to carry, and so has the link
    back. No piece goes back before it has come from all workers. Links in both directions are two machines, and pieces
    are jobs that pass one after the other: the least time is that of all pieces on one, and of the largest on the other
    (Johnson 1954, for jobs that take as long on both).

    Attributes:
        back_bytes: float64[2 x links], bytes of the largest piece by directed link.
    """

    back_bytes: Floats

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Return a lower bound of GST (s), all gradients being ready at once: what the busiest link takes for its bytes
        and for the largest piece, which goes the other way before or after."""
        whole_s = shaper.least_s(self.late_bytes, self.link_rate_bps)
        piece_s = shaper.least_s(self.back_bytes, self.link_rate_bps)
        back = np.arange(len(piece_s)) ^ 1
        return float((whole_s + piece_s[back]).max(initial=0.0))


def cost(plan: Plan, topology: Topology, gradient_bytes: float) -> BoxCost:
    """Compute the cost of one synchronisation.

    Raises:
        TopologyError: a worker and a box have no route.
    """
    pieces = _pieces(plan, gradient_bytes)
    along = cost_of_flows(_flows(_added(pieces)), topology, rounds=2)
    return BoxCost(**vars(along), back_bytes=_largest(pieces, topology))


def _pieces(plan: Plan, gradient_bytes: float) -> list[Moved]:
    """List the bytes of each piece by the connections over which workers send it: a key, or with wide aggregation a
    layer."""
    scale = gradient_bytes / sum(plan.tensors)
    pieces: dict[int, Moved] = {}
    for number, (key, place) in enumerate(zip(plan.keys, plan.places, strict=True)):
        piece = pieces.setdefault(key.layer if plan.aggregation == "wide" else number, {})
        for way in plan.ways(place):
            piece[way] = piece.get(way, 0.0) + scale * key.floats
    return list(pieces.values())


def _added(pieces: Iterable[Moved]) -> Moved:
    whole: Moved = defaultdict(float)
    for piece in pieces:
        for way, count_bytes in piece.items():
            whole[way] += count_bytes
    return whole


def _flows(moved: Moved) -> Flows:
    """Return flows of these bytes to boxes, and of as many back."""
    both = sorted([(*way, count) for way, count in moved.items()] + [(b, a, n, c) for (a, b, n), c in moved.items()])
    senders, receivers, connections, count_bytes = zip(*both, strict=True)
    return Flows(np.array(senders), np.array(receivers), np.array(count_bytes, np.float64), np.array(connections))


def _largest(pieces: Iterable[Moved], topology: Topology) -> Floats:
    """Return the bytes of the largest piece by directed link: of each box and NIC, those of its largest key, or of its
    part of the layer that has most there; for each worker, both in all."""
    largest = np.zeros(2 * len(topology.links))
    alike: set[frozenset[tuple[Way, float]]] = set()
    for piece in pieces:
        if piece and (known := frozenset(piece.items())) not in alike:
            alike.add(known)
            largest = np.maximum(largest, cost_of_flows(_flows(piece), topology, 2).link_bytes)
    return largest
