"""Branches of the way of weights from servers to workers. Pure logic, no I/O."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from testbed.workloads.kinds.fabric.scheduling.model import Transfer, Way


@dataclass(frozen=True)
class Branch:
    """The way of weights to a node, and on from there.

    Attributes:
        first: by shard, from the servers to the node.
        onward: by other node, by shard.
    """

    node: int
    first: tuple[Transfer, ...]
    onward: Mapping[int, tuple[Transfer, ...]]

    @property
    def start_s(self) -> float:
        """When the first shard leaves its server."""
        return min(one.start_s for one in self.first)


def branches(way: Way, servers: Sequence[int], asking: Container[int]) -> list[Branch]:
    """List the branches of a way that bring weights to the nodes that ask. A distributor whose group are other
    distributors has nobody to pass them on to; it is listed if it asks itself."""
    to = {(one.source, one.target, one.shard): one for one in way.transfers}
    over = {group.aggregator for group in way.groups}
    ways = [(group.aggregator, [node for node in group.members if node not in over]) for group in way.groups]
    ways = [(node, onward) for node, onward in ways if onward or node in asking]
    ways += [(node, []) for node in way.direct if node not in over]
    shards = range(len(servers))
    return [
        Branch(
            node,
            tuple(to[server, node, shard] for shard, server in enumerate(servers)),
            {other: tuple(to[node, other, shard] for shard in shards) for other in onward},
        )
        for node, onward in ways
    ]
