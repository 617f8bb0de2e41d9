"""Some hosts of a network as a network of their own, for jobs that are planned on them alone.

The other hosts stay where they are and only forward, as they do for the whole network. So links keep their numbers, and
every path is one of the whole network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from testbed.topologies.model import Path, Topology


@dataclass(frozen=True)
class Part:
    """Hosts of a network, ``whole``, in the order given; ``hosts`` are their indices there, each once."""

    whole: Topology
    hosts: tuple[int, ...]

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """The whole network's node of each node of :attr:`topology`: these hosts, the switches, the other hosts."""
        others = [host for host in self.whole.hosts if host not in set(self.hosts)]
        return (*self.hosts, *self.whole.switches, *others)

    @cached_property
    def topology(self) -> Topology:
        """The network of these hosts. It has another family, for a family's structure is that of all hosts."""
        whole, number = self.whole, {node: i for i, node in enumerate(self.nodes)}
        if self.hosts == tuple(whole.hosts):
            return whole
        nodes = [whole.nodes[node] for node in self.nodes]
        forwarding = [replace(node, kind="switch") if node.kind == "host" else node for node in nodes]
        return Topology(
            family=f"{len(self.hosts)} hosts of {whole.family}",
            params=whole.params,
            nodes=(*nodes[: len(self.hosts)], *forwarding[len(self.hosts) :]),
            links=tuple(replace(link, a=number[link.a], b=number[link.b]) for link in whole.links),
            router=self._paths,
        )

    def _paths(self, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
        return self.whole.paths(self.nodes[src], self.nodes[dst])


def passed(topology: Topology, pairs: Sequence[tuple[int, int]]) -> set[int]:
    """Return the hosts that traffic between these pairs of nodes passes, without its own ends.

    Raises:
        TopologyError: two of them have no route.
    """
    found: set[int] = set()
    for src, dst in pairs:
        for path in topology.paths(src, dst):
            found |= {topology.head(link) for link in path.links} - {src, dst}
    return {node for node in found if node < topology.host_count}
