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
"""Bytes by the way that they take."""


@dataclass(frozen=True, eq=False)
class BoxCost(Cost):
    """Cost of a synchronisation whose pieces go out only when they have come.

    A piece is a key, or with wide aggregation a layer. A link carries what workers push, and its other direction what
    comes back. No piece goes back before it has come from all workers. Both directions are two machines, and pieces are
    jobs that pass one after the other: the least time is that of all pushes on one, and of the largest piece on the
    other (Johnson 1954, for jobs that take as long on both).

    Values and sums of racks that pass in the direction of pushes can go at any other time, so the largest piece is
    added to pushes alone.

    Attributes:
        pushed_bytes: float64[2 x links], bytes that workers push by directed link.
        piece_bytes: float64[2 x links], bytes of the largest piece of them by directed link.
    """

    pushed_bytes: Floats
    piece_bytes: Floats

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Return a lower bound of GST (s), all gradients being ready at once: what the busiest link takes for all
        its bytes, or for those that are pushed and the largest piece, which comes back after them."""
        pushed_s = shaper.least_s(self.pushed_bytes, self.link_rate_bps)
        piece_s = shaper.least_s(self.piece_bytes, self.link_rate_bps)
        return max(super().bound_s(shaper), float((pushed_s + piece_s).max(initial=0.0)))


def cost(plan: Plan, topology: Topology, gradient_bytes: float) -> BoxCost:
    """Compute the cost of one synchronisation.

    Raises:
        TopologyError: a worker and a box have no route.
    """
    pieces = _pieces(plan, gradient_bytes)
    pushed = _added(pieces)
    values = {(box, worker, connection): count_bytes for (worker, box, connection), count_bytes in pushed.items()}
    rounds = 2 if plan.across == "none" else 4 if plan.across == "ps" else 2 * len(plan.boxes)
    along = cost_of_flows(_flows(_added([pushed, values, _across(plan, gradient_bytes)])), topology, rounds)
    pushed_bytes = cost_of_flows(_flows(pushed), topology, 1).link_bytes
    return BoxCost(**vars(along), pushed_bytes=pushed_bytes, piece_bytes=_largest(pieces, topology))


def _pieces(plan: Plan, gradient_bytes: float) -> list[Moved]:
    """List the bytes of each piece by the ways from workers to boxes: a key, or with wide aggregation a layer."""
    scale = gradient_bytes / sum(plan.tensors)
    pieces: dict[int, Moved] = {}
    for number, (key, place) in enumerate(zip(plan.keys, plan.places, strict=True)):
        piece = pieces.setdefault(key.layer if plan.aggregation == "wide" else number, {})
        for way in plan.ways(place):
            piece[way] = piece.get(way, 0.0) + scale * key.floats
    return list(pieces.values())


def _across(plan: Plan, gradient_bytes: float) -> Moved:
    """Return the bytes of sums between boxes."""
    scale = gradient_bytes / sum(plan.tensors)
    return _added(
        {way: scale * key.floats}
        for key, place in zip(plan.keys, plan.places, strict=True)
        for way in plan.ways_across(place)
    )


def _added(pieces: Iterable[Moved]) -> Moved:
    whole: Moved = defaultdict(float)
    for piece in pieces:
        for way, count_bytes in piece.items():
            whole[way] += count_bytes
    return whole


def _flows(moved: Moved) -> Flows:
    senders, receivers, connections, count_bytes = zip(
        *sorted((*way, count) for way, count in moved.items()), strict=True
    )
    return Flows(np.array(senders), np.array(receivers), np.array(count_bytes, np.float64), np.array(connections))


def _largest(pieces: Iterable[Moved], topology: Topology) -> Floats:
    """Return the bytes of the largest piece by directed link: of each box and NIC, those of its largest key, or of its
    part of the layer that has most there; for each worker, both in all."""
    largest = np.zeros(2 * len(topology.links))
    alike: set[frozenset[tuple[Way, float]]] = set()
    for piece in pieces:
        if piece and (known := frozenset(piece.items())) not in alike:
            alike.add(known)
            largest = np.maximum(largest, cost_of_flows(_flows(piece), topology, 1).link_bytes)
    return largest
