"""Plans of networks for which trees of all classes are too many: the trees of class 0, and a rotation of the nodes.

The class c has the trees of class 0, turned c times. N hosts have N classes and N^2 parents, which take 34 GB for
65,536 hosts. Under a rotation the network, the routes and the order of sending look alike from each host, which
:func:`check` finds by turning once: what looks alike then does so after each further turn. So one class says what
happens on all links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.topologies.model import Link, Topology
from testbed.workloads.sync.flows import Flows
from testbed.workloads.sync.forest import Forest, Parents

KIND = "rotation"
MOST_HOSTS = 1024
"""Hosts up to which the trees of all classes are always made."""
MOST_OF_TREES = 8192
"""Hosts up to which they can be made at all: two arrays of 256 MiB."""
FIX = f"let it look alike from each host, or take at most {MOST_OF_TREES:,} hosts, of which all classes are played"


@dataclass(frozen=True, eq=False)
class Rotation:
    """The plan of N workers with N classes of equal shares.

    Attributes:
        scheme: the expression that built it.
        nodes: names of the V nodes, in the topology's order.
        workers: the hosts, by rank.
        reduce, broadcast: int32[V], the trees of class 0, as in :class:`.Forest`.
        turn: int32[V], the node in whose place each node comes with the next class.
        like: int32[2 x links], by directed link, the first one that turns bring in its place (:func:`like`).
    """

    scheme: str
    nodes: tuple[str, ...]
    workers: tuple[int, ...]
    reduce: Parents
    broadcast: Parents
    turn: NDArray[np.int32]
    like: NDArray[np.int32]

    @property
    def kind(self) -> str:
        """The kind of trial that it is for."""
        return KIND

    @property
    def nbytes(self) -> int:
        """Bytes of its trees."""
        return self.reduce.nbytes + self.broadcast.nbytes + self.turn.nbytes

    def built_by(self, scheme: str) -> Rotation:
        """Return the same plan with another expression."""
        return replace(self, scheme=scheme)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """The number of turns after which the first worker comes in the place of each node: int64[V]; -1 for nodes in
        whose place it never comes."""
        place, node = np.full(len(self.nodes), -1, np.int64), self.workers[0]
        for turns in range(len(self.workers)):
            if place[node] >= 0:
                break
            place[node] = turns
            node = int(self.turn[node])
        return place

    @property
    def class_0(self) -> Forest:
        """Class 0 as a forest of its own."""
        share = np.ones(1, np.int64)
        return Forest(self.scheme, self.nodes, self.workers, share, self.reduce[None], self.broadcast[None])

    @property
    def edges(self) -> NDArray[np.int64]:
        """The messages of class 0, up and then down: int64[E, 2], sender and receiver."""
        child, receiver = np.flatnonzero(self.reduce >= 0), np.flatnonzero(self.broadcast >= 0)
        up = np.stack([child, self.reduce[child]], axis=1)
        return np.concatenate([up, np.stack([self.broadcast[receiver], receiver], axis=1)]).astype(np.int64)

    def flows(self, gradient_bytes: float) -> Flows:
        """Compute the bytes between nodes in a synchronisation: those of class 0, from and to each place."""
        count, (src, dst) = len(self.workers), self.place[self.edges].T
        steps, times = np.unique((dst - src) % count, return_counts=True)
        at = np.argsort(self.place[list(self.workers)])
        node = np.array(self.workers)[at]
        senders = np.concatenate([node for _ in steps])
        receivers = np.concatenate([np.roll(node, -step) for step in steps])
        count_bytes = np.repeat(gradient_bytes / count * times, count)
        order = np.lexsort((receivers, senders))
        return Flows(senders[order], receivers[order], count_bytes[order])


def check(plan: Rotation, topology: Topology) -> None:
    """Return only if the network, its routes and the order of sending look alike after a turn.

    Raises:
        SchemeError: they do not; it names the first link, or the first two hosts, that differ.
    """
    turn, count = plan.turn, len(plan.workers)
    if (plan.place[list(plan.workers)] < 0).any() or sorted(turn.tolist()) != list(range(len(plan.nodes))):
        raise SchemeError(f"scheme {plan.scheme}: turning does not bring each host to all places", fix=FIX)
    # A node sends the class of its own rank first, and then those after it. So a turn has to add one to each rank.
    rank = {node: rank for rank, node in enumerate(plan.workers)}
    for node in plan.workers:
        if rank.get(int(turn[node])) != (rank[node] + 1) % count:
            raise SchemeError(
                f"scheme {plan.scheme}: {plan.nodes[node]} sends its classes in another order than "
                f"{plan.nodes[int(turn[node])]}, in whose place a turn brings it",
                fix=FIX,
            )
    known = {(a, b): link for link in topology.links for a, b in ((link.a, link.b), (link.b, link.a))}
    for link in topology.links:
        a, b = int(turn[link.a]), int(turn[link.b])
        other = known.get((a, b))
        if other is None or (other.rate_bps, other.delay_s) != (link.rate_bps, link.delay_s):
            there = "no link" if other is None else f"one with {_text(other)}"
            raise SchemeError(
                f"scheme {plan.scheme} on {count:,} hosts: not all links look alike: {_link(link, topology)} has "
                f"{_text(link)}; between {plan.nodes[a]} and {plan.nodes[b]}, where a turn brings it, there is {there}",
                fix=FIX,
            )
    _check_routes(plan, topology)


def _check_routes(plan: Rotation, topology: Topology) -> None:
    turn, traffic = plan.turn, plan.flows(1.0)
    for src, dst, _ in traffic:
        here, there = _route(topology, src, dst), _route(topology, int(turn[src]), int(turn[dst]))
        if here is None or there is None or [int(turn[node]) for node in here] != there:
            names = plan.nodes[src], plan.nodes[dst]
            raise SchemeError(
                f"scheme {plan.scheme}: the route from {names[0]} to {names[1]} does not look like the one from "
                f"{plan.nodes[int(turn[src])]} to {plan.nodes[int(turn[dst])]}, in whose places a turn brings them",
                fix=FIX,
            )


def _route(topology: Topology, src: int, dst: int) -> list[int] | None:
    """Return the nodes of the only route; None where there are several."""
    paths = topology.paths(src, dst)
    return [src, *(topology.head(link) for link in paths[0].links)] if len(paths) == 1 else None


def like(turn: NDArray[np.int32], topology: Topology) -> NDArray[np.int32]:
    """Return for each directed link the first one that turns bring in its place."""
    ends = {(topology.tail(link), topology.head(link)): link for link in range(2 * len(topology.links))}
    first = np.full(len(ends), -1, np.int32)
    for (tail, head), link in ends.items():
        at: int | None = link
        while at is not None and first[at] < 0:
            first[at] = link
            tail, head = int(turn[tail]), int(turn[head])
            at = ends.get((tail, head))
    return first


def _link(link: Link, topology: Topology) -> str:
    return f"{topology.nodes[link.a].name}-{topology.nodes[link.b].name}"


def _text(link: Link) -> str:
    return f"{link.rate_bps:,} bit/s and a delay of {link.delay_s:g} s"
