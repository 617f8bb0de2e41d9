"""Cost of one synchronisation, found without running it: rounds, bytes, and a lower bound of its time.

Nothing here is a scheme's own formula: 2(N-1)/N x T_F for PS and ring and 2(N-1)/(kN) x T_F for BML (BML section 2 and
3.2) come out of the forest and of the topology's paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import Flows, broadcasts, flows
from testbed.workloads.sync.forest import ROOT, Forest, Parents, blocks, depths


def goodput(mtu_bytes: int) -> float:
    """Return the share of a link's rate that TCP leaves to the payload: 40 + 12 bytes of IP, TCP and timestamps of each
    packet are headers, and 14 bytes of Ethernet come on top."""
    return (mtu_bytes - 52) / (mtu_bytes + 14)


ETHERNET_BYTES = 14
HEADER_BYTES = 52 + ETHERNET_BYTES
"""Header bytes of a packet that goes out as one frame, as :func:`goodput` counts them."""


@dataclass(frozen=True)
class Shaper:
    """The bytes that a shaped link lets pass before its rate counts; without arguments, none.

    Attributes:
        goodput: share of the rate that carries payload (:func:`goodput`).
        bucket_s: for how long an idle link saves up at its rate,
        bucket_bytes: and how many bytes it saves up at least.
        packet_bytes: the largest packet that is handed down whole: one that finds anything in the bucket leaves at
            once, and the link pays for it afterwards. The last packet of a synchronisation need not wait for that.
    """

    goodput: float = 1.0
    bucket_s: float = 0.0
    bucket_bytes: float = 0.0
    packet_bytes: float = 0.0

    def with_last_packet(self, payload_bytes: float) -> Shaper:
        """Return the shaper of the same links, where the last packet of a synchronisation has at most so much
        payload."""
        return replace(self, packet_bytes=min(self.packet_bytes, payload_bytes / self.goodput + HEADER_BYTES))

    def at_rate_bytes(self, payload_bytes: NDArray[np.float64], rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the bytes on the wire that each link, idle before, must carry at its rate for so much payload; of the
        arguments' shape."""
        found: NDArray[np.float64] = np.maximum(0.0, payload_bytes / self.goodput - self.early_bytes(rate_bps))
        return found

    def early_bytes(self, rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the bytes on the wire that each link, idle before, lets pass before its rate counts."""
        found: NDArray[np.float64] = np.maximum(rate_bps / 8 * self.bucket_s, self.bucket_bytes) + self.packet_bytes
        return found

    def least_s(self, payload_bytes: NDArray[np.float64], rate_bps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the least time (s) in which each link, idle before, can carry so much payload; of the arguments'
        shape."""
        return self.at_rate_bytes(payload_bytes, rate_bps) * 8 / rate_bps


IDEAL = Shaper()
"""A link that carries payload alone, at its rate from the first bit to the last."""


@dataclass(frozen=True, eq=False)
class Cost:
    """Cost of one synchronisation of ``gradient_bytes``.

    Attributes:
        rounds: transfers that must follow each other: depth of a class's reduce-tree plus its broadcast-tree, at most.
        wire_bytes: gradient bytes that all nodes together send.
        cross_rack_bytes: those of them that leave a rack for another.
        link_bytes: float64[2 x links], by directed link.
        link_rate_bps: float64[2 x links], capacity by directed link.
    """

    moved: ClassVar[bool] = False
    """Whether synchronisations went other ways each, as where circuits moved, so that bytes and bound are those of
    several states."""
    rounds: int
    wire_bytes: float
    cross_rack_bytes: float
    link_bytes: NDArray[np.float64]
    link_rate_bps: NDArray[np.float64]

    @property
    def link_s(self) -> NDArray[np.float64]:
        """Seconds for which each directed link is busy, at full rate: float64[2 x links]."""
        return self.link_bytes * 8 / self.link_rate_bps

    @property
    def late_bytes(self) -> NDArray[np.float64]:
        """The part of :attr:`link_bytes` that cannot leave before gradients are ready: all, unless something else is
        sent before. float64[2 x links]."""
        return self.link_bytes

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Return a lower bound of GST (s), all gradients being ready at once: what the busiest link takes for its
        bytes."""
        return float(shaper.least_s(self.late_bytes, self.link_rate_bps).max(initial=0.0))

    def done_s(self, ready_s: Mapping[int, float], shaper: Shaper) -> float | None:  # noqa: ARG002 - others use them
        """Return the first moment at which all workers can have the sum, given when each worker (by node) has its
        gradient; None where that follows from the bytes of links."""
        return None

    def round_s(self) -> float:
        """Return how long (s) the busiest link takes at full rate for all bytes of a synchronisation."""
        return float(self.link_s.max(initial=0.0))

    def busiest(self) -> list[int]:
        """List the directed links that set the bound."""
        busy = self.link_s
        return [int(link) for link in np.flatnonzero((busy > 0) & (busy >= busy.max(initial=0.0) * (1 - 1e-9)))]


def cost(forest: Forest, topology: Topology, gradient_bytes: float) -> Cost:
    """Compute the cost of one synchronisation along the forest, which must have passed
    :func:`testbed.workloads.sync.verify.verify`.

    Raises:
        TopologyError: two neighbours in the forest have no route.
    """
    return cost_of(flows(forest, gradient_bytes), forest, topology)


def cost_of(traffic: Flows, forest: Forest, topology: Topology) -> Cost:
    """Compute the cost of a synchronisation, given what is sent along the forest's edges."""
    sends = forest.share > 0
    return cost_of_flows(traffic, topology, int((depth(forest.reduce) + depth(forest.broadcast))[sends].max()))


def cost_of_flows(traffic: Flows, topology: Topology, rounds: int) -> Cost:
    """Compute the cost of what is sent; ``rounds`` transfers must follow each other.

    Raises:
        TopologyError: a sender and a receiver have no route.
    """
    return Cost(
        rounds=rounds,
        wire_bytes=float(traffic.count_bytes.sum()),
        cross_rack_bytes=_cross_rack_bytes(topology, traffic),
        link_bytes=_link_bytes(traffic, topology),
        link_rate_bps=np.array(topology.rates_bps),
    )


class Releases:
    """Earliest departures of a synchronisation's bytes: a partial sum cannot leave before all workers in it had their
    gradients, nor a sum before the last worker, or the last member of its class, had its gradient."""

    def __init__(self, forest: Forest, topology: Topology, gradient_bytes: float) -> None:
        self._forest, self._link_count = forest, 2 * len(topology.links)
        class_bytes = gradient_bytes * forest.share / forest.share.sum()
        # An edge's class, the node whose partial sum lets it go, its sender and its receiver.
        self._classes, senders = np.nonzero(forest.reduce >= 0)
        self._summed_at, receivers = senders, forest.reduce[self._classes, senders]
        self._sums = np.zeros(self._link_count)
        if forest.members is None:  # then all sums leave at one time, and need not be followed edge by edge
            self._sums = _link_bytes(broadcasts(forest, gradient_bytes), topology)
        else:
            classes, children = np.nonzero(forest.broadcast >= 0)
            roots = np.argmax(forest.reduce == ROOT, axis=1)
            self._classes = np.concatenate([self._classes, classes])
            self._summed_at = np.concatenate([self._summed_at, roots[classes]])
            senders = np.concatenate([senders, forest.broadcast[classes, children]])
            receivers = np.concatenate([receivers, children])
        edges: list[int] = []
        links: list[int] = []
        counts: list[float] = []
        ends = zip(self._classes.tolist(), senders.tolist(), receivers.tolist(), strict=True)
        for edge, (one, src, dst) in enumerate(ends):
            for path in topology.paths(src, dst):
                edges += [edge] * len(path.links)
                links += path.links
                counts += [class_bytes[one] * path.weight] * len(path.links)
        self._edges, self._edge_links = np.array(edges, np.int64), np.array(links, np.int64)
        self._edge_bytes = np.array(counts, np.float64)

    def edges_s(self, ready_s: Mapping[int, float]) -> NDArray[np.float64]:
        """Return when each partial sum or sum can leave, given when each worker (by node) has its gradient:
        float64[edges of all reduce-trees; with members of classes, of broadcast-trees, too]."""
        forest = self._forest
        release_s = np.full(forest.reduce.shape, -np.inf)
        at = np.repeat([list(ready_s)], forest.classes, axis=0)
        moments = np.repeat([list(ready_s.values())], forest.classes, axis=0)
        rows = np.arange(forest.classes)[:, None] + 0 * at
        while at.size:
            np.maximum.at(release_s, (rows, at), moments)
            parent = forest.reduce[rows, at]
            rows, moments, at = rows[parent >= 0], moments[parent >= 0], parent[parent >= 0]
        found: NDArray[np.float64] = release_s[self._classes, self._summed_at]
        return found

    def link_bytes(self, edges_s: NDArray[np.float64], from_s: float) -> NDArray[np.float64]:
        """Return float64[2 x links]: bytes by directed link that cannot have left before ``from_s``, which is at most
        when the last worker has its gradient."""
        late = (edges_s >= from_s)[self._edges]
        return self._sums + np.bincount(self._edge_links[late], self._edge_bytes[late], self._link_count)


def _link_bytes(traffic: Flows, topology: Topology) -> NDArray[np.float64]:
    """Return float64[2 x links]: the bytes that flows put on each directed link."""
    link_bytes = [0.0] * (2 * len(topology.links))  # a list: faster than an array one by one, and PS has N^2 pairs
    chosen = repeat(None) if traffic.connections is None else traffic.connections.tolist()
    for (src, dst, count), connection in zip(traffic, chosen, strict=False):
        paths = topology.paths(src, dst) if connection is None else topology.connections(src, dst)[connection]
        whole = 1.0 if connection is None else sum(path.weight for path in paths)
        for path in paths:
            for link in path.links:
                link_bytes[link] += count * path.weight / whole
    return np.array(link_bytes)


def depth(trees: Parents) -> NDArray[np.int64]:
    """Return int64[C]: edges from the deepest node of each tree to its root; no tree may have a cycle."""
    return np.concatenate([depths(trees[rows]).max(axis=1) for rows in blocks(trees)]).astype(np.int64)


def _cross_rack_bytes(topology: Topology, traffic: Flows) -> float:
    """Count the bytes between hosts whose racks are both known and differ."""
    rack = np.array([-1 if node.rack is None else node.rack for node in topology.nodes])
    src, dst = rack[traffic.senders], rack[traffic.receivers]
    return float(traffic.count_bytes[(src >= 0) & (dst >= 0) & (src != dst)].sum())
