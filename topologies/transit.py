"""Routes that begin or end at a switch, for switches that aggregate what hosts send."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.topologies.model import Path, Router, Topology
from testbed.topologies.shortest import ShortestPaths


@dataclass
class Transit:
    """A topology's router, extended to switches.

    ``between_hosts`` says how traffic goes from host to host, and goes on saying it. The kernel's routes know a
    packet's destination only, so what a switch sends to a host takes the rest of a host's path that passes the switch;
    where none does, a step on a shortest path towards one. What is sent to a switch takes a shortest path.
    """

    between_hosts: Router
    _shortest: ShortestPaths = field(default_factory=ShortestPaths)

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        if dst >= topology.host_count:
            return self._shortest(topology, src, dst)
        if src < topology.host_count:
            return self.between_hosts(topology, src, dst)
        return self._rest(topology, src, dst) or self._joining(topology, src, dst)

    def _rest(self, topology: Topology, switch: int, dst: int) -> tuple[Path, ...]:
        """Return the paths from a switch on: those of the first host whose traffic for ``dst`` passes it; empty if none
        does."""
        near = [topology.head(link) for link in topology.ports[switch]]
        for host in [*(node for node in near if node < topology.host_count), *topology.hosts]:
            if host == dst:
                continue
            paths = self.between_hosts(topology, host, dst)
            passing: dict[tuple[int, ...], float] = {}
            for path in paths:
                at = next((i for i, link in enumerate(path.links) if topology.tail(link) == switch), None)
                if at is not None:
                    passing[path.links[at:]] = passing.get(path.links[at:], 0.0) + path.weight
            if passing:
                return tuple(Path(links, weight / sum(passing.values())) for links, weight in passing.items())
        return ()

    def _joining(self, topology: Topology, switch: int, dst: int) -> tuple[Path, ...]:
        first = self._shortest(topology, switch, dst)[0].links[0]
        head = topology.head(first)
        rest = (Path(()),) if head == dst else self(topology, head, dst)
        return tuple(Path((first, *path.links), path.weight) for path in rest)
