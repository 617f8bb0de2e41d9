"""Routers for a topology of one's own: shortest paths, counted in links."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import is_bridge
from testbed.topologies.model import Path, Topology


class ShortestPaths:
    """A router that takes a shortest path; make one for each topology, since it remembers distances.

    Args:
        ecmp: let every shortest path carry traffic, split evenly at each node among its next hops, as the kernel does
            (a bridge is no hop, what lies behind it is); otherwise every node takes the lowest port that leads nearer.
    """

    def __init__(self, *, ecmp: bool = False) -> None:
        self.ecmp = ecmp
        self._distances: dict[int, list[int]] = {}

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        if dst not in self._distances:
            self._distances[dst] = _distances(topology, dst)
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


def _distances(topology: Topology, dst: int) -> list[int]:
    """Count the links from each node to ``dst``; -1 where there is no way."""
    distance = [-1] * len(topology.nodes)
    distance[dst] = 0
    todo = deque([dst])
    while todo:
        node = todo.popleft()
        for link in topology.ports[node]:
            neighbour = topology.head(link)
            if distance[neighbour] < 0:
                distance[neighbour] = distance[node] + 1
                todo.append(neighbour)
    return distance
