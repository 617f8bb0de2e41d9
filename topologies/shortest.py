"""Shortest paths, counted in links: routers for a topology of one's own, and steps from a node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import is_bridge
from testbed.topologies.model import Path, Topology

T = TypeVar("T", bound=Hashable)


def steps_from(starts: Iterable[T], near: Callable[[T], Iterable[T]]) -> dict[T, int]:
    """Count the steps from the nearest of ``starts`` to each node that can be reached, the nearest first; ``near`` has
    the nodes that are one step away."""
    found = dict.fromkeys(starts, 0)
    todo = deque(found)
    while todo:
        here = todo.popleft()
        for other in near(here):
            if other not in found:
                found[other] = found[here] + 1
                todo.append(other)
    return found


class ShortestPaths:
    """A router that takes a shortest path; make one for each topology, since it remembers distances.

    Args:
        ecmp: let every shortest path carry traffic, split evenly at each node among its next hops, as the kernel does
            (a bridge is no hop, what lies behind it is); otherwise every node takes the lowest port that leads nearer.
    """

    def __init__(self, *, ecmp: bool = False) -> None:
        self.ecmp = ecmp
        self._distances: dict[int, list[int]] = {}
        """Links from each node to a destination; -1 where there is no way."""

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        if dst not in self._distances:
            found = steps_from([dst], lambda node: map(topology.head, topology.ports[node]))
            self._distances[dst] = [found.get(node, -1) for node in range(len(topology.nodes))]
        distance = self._distances[dst]
        if distance[src] < 0:
            names = topology.nodes
            raise TopologyError(
                f"{topology.expression}: no route leads from {names[src].name} to {names[dst].name}",
                fix="link them, over switches or directly",
            )
        return tuple(self._walk(topology, distance, src, dst))

    def _walk(self, topology: Topology, distance: list[int], here: int, dst: int) -> Iterator[Path]:
        if here == dst:
            yield Path(())
            return
        hops = list(self._hops(topology, distance, here))
        chosen = hops if self.ecmp else hops[:1]
        for hop in chosen:
            for rest in self._walk(topology, distance, topology.head(hop[-1]), dst):
                yield Path((*hop, *rest.links), rest.weight / len(chosen))

    def _hops(self, topology: Topology, distance: list[int], here: int) -> Iterator[tuple[int, ...]]:
        """Return the links to each next node that is nearer and decides for itself."""
        for link in topology.ports[here]:
            head = topology.head(link)
            if distance[head] != distance[here] - 1:
                continue
            if topology.nodes[head].kind == "switch" and is_bridge(topology, head):
                yield from ((link, *hop) for hop in self._hops(topology, distance, head))
            else:
                yield (link,)
