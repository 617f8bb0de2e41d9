"""What one synchronisation costs, found without running it: rounds, bytes, and a lower bound of its time.

Nothing here is a scheme's own formula: 2(N-1)/N x T_F for PS and ring and 2(N-1)/(kN) x T_F for BML (BML section 2 and
3.2) come out of the forest and of the topology's paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topologies.model import Topology
from workloads.sync.flows import flows
from workloads.sync.forest import ROOT, Forest, Parents


def goodput(mtu_bytes: int) -> float:
    """Share of a link's rate that TCP leaves to the payload: 40 + 12 bytes of IP, TCP and timestamps of each packet are
    headers, and 14 bytes of Ethernet come on top."""
    return (mtu_bytes - 52) / (mtu_bytes + 14)


@dataclass(frozen=True, eq=False)
class Cost:
    """One synchronisation of ``gradient_bytes``.

    Attributes:
        rounds: transfers that must follow each other: depth of a class's reduce-tree plus its broadcast-tree, at most.
        wire_bytes: gradient bytes that all nodes together send.
        cross_rack_bytes: those of them that leave a rack for another.
        link_bytes: float64[2 x links], by directed link.
        link_rate_bps: float64[2 x links], capacity by directed link.
        alone_s: of an asynchronous scheme, how long the nearest worker's update takes at full rate when nobody else
            sends: its gradient there, and then weights back; None of a synchronous one.
    """

    rounds: int
    wire_bytes: float
    cross_rack_bytes: float
    link_bytes: NDArray[np.float64]
    link_rate_bps: NDArray[np.float64]
    alone_s: float | None

    @property
    def link_s(self) -> NDArray[np.float64]:
        """float64[2 x links]: seconds for which each directed link is busy, at full rate."""
        return self.link_bytes * 8 / self.link_rate_bps

    def bound_s(self, goodput: float = 1.0) -> float:
        """Lower bound of GST: the busiest link's bytes over the part of its rate that carries payload; where nobody
        waits for a sum, what an update takes alone."""
        return (self.round_s() if self.alone_s is None else self.alone_s) / goodput

    def round_s(self) -> float:
        """How long the busiest link takes at full rate for a synchronisation, or for as many updates as workers."""
        return float(self.link_s.max(initial=0.0))

    def busiest(self) -> list[int]:
        """The directed links that set the bound."""
        busy = self.link_s
        return [int(link) for link in np.flatnonzero((busy > 0) & (busy >= busy.max(initial=0.0) * (1 - 1e-9)))]


def cost(forest: Forest, topology: Topology, gradient_bytes: float, updates: Sequence[float] | None = None) -> Cost:
    """Cost of one synchronisation; the forest must have passed :func:`workloads.sync.verify.verify`.

    Of an asynchronous scheme, ``updates`` is how many each rank makes meanwhile; None for one.

    Raises:
        TopologyError: two neighbours in the forest have no route.
    """
    traffic = flows(forest, gradient_bytes)
    if updates is not None:
        for worker, count in zip(forest.workers, updates, strict=True):
            traffic[worker, :] *= count
            traffic[:, worker] *= count
    link_bytes = [0.0] * (2 * len(topology.links))  # a list: faster than an array one by one, and PS has N^2 pairs
    senders, receivers = np.nonzero(traffic)
    for src, dst, count in zip(senders.tolist(), receivers.tolist(), traffic[senders, receivers].tolist(), strict=True):
        for path in topology.paths(src, dst):
            for link in path.links:
                link_bytes[link] += count * path.weight
    return Cost(
        rounds=int((depth(forest.reduce) + depth(forest.broadcast)).max()),
        wire_bytes=float(traffic.sum()),
        cross_rack_bytes=_cross_rack_bytes(topology, traffic),
        link_bytes=np.array(link_bytes),
        link_rate_bps=np.repeat([float(link.rate_bps) for link in topology.links], 2),
        alone_s=alone_s(forest, topology, gradient_bytes) if forest.asynchronous else None,
    )


def alone_s(forest: Forest, topology: Topology, gradient_bytes: float) -> float:
    """Least time of an update of an asynchronous scheme: of the worker whose ways to and from the server are fastest.

    Weights contain the update, so they leave when all of the gradient is there.
    """
    server = int(np.argmax(forest.reduce[0] == ROOT))
    return min(
        sum(8 * gradient_bytes / _rate_bps(topology, *way) for way in ((worker, server), (server, worker)))
        for worker in forest.workers
    )


def _rate_bps(topology: Topology, src: int, dst: int) -> int:
    """Of the fastest path, whose rate is its slowest link's."""
    return max(min(topology.links[link // 2].rate_bps for link in path.links) for path in topology.paths(src, dst))


def depth(trees: Parents) -> NDArray[np.int64]:
    """int64[C]: edges from the deepest node of each tree to its root (pointer doubling; no tree may have a cycle)."""
    up = np.where(trees >= 0, trees, np.arange(trees.shape[1], dtype=np.int32))
    steps = (trees >= 0).astype(np.int32)
    while True:
        further = np.take_along_axis(steps, up, axis=1)
        if not further.any():
            deepest: NDArray[np.int64] = steps.max(axis=1).astype(np.int64)
            return deepest
        steps += further
        up = np.take_along_axis(up, up, axis=1)


def _cross_rack_bytes(topology: Topology, traffic: NDArray[np.float64]) -> float:
    """Bytes between hosts whose racks are both known and differ."""
    rack = np.array([-1 if node.rack is None else node.rack for node in topology.nodes])
    known = (rack[:, None] >= 0) & (rack[None, :] >= 0)
    return float(traffic[known & (rack[:, None] != rack[None, :])].sum())
