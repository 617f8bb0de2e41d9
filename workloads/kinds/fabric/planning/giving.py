"""Which ways of weights begin now. Pure logic, no I/O.

What begins later is not told yet: by then there are newer weights, and maybe links that were expected to be free are
not.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from workloads.kinds.fabric.scheduling.model import Transfer, Way


@dataclass(frozen=True)
class Begun:
    """How weights go to a node, and on from there.

    Attributes:
        first: by shard, from the servers to the node.
        onward: by other node, by shard.
    """

    node: int
    first: tuple[Transfer, ...]
    onward: dict[int, tuple[Transfer, ...]]


def begun(way: Way, servers: Sequence[int], asking: Container[int], until_s: float) -> list[Begun]:
    """What of a way has a shard that leaves its server by then. A distributor whose group are other distributors has
    nobody to pass weights on to; it is there if it asks itself."""
    to = {(one.source, one.target, one.shard): one for one in way.transfers}
    shards = range(len(servers))
    over = {group.aggregator for group in way.groups}
    ways = [(group.aggregator, [node for node in group.members if node not in over]) for group in way.groups]
    ways = [(node, onward) for node, onward in ways if onward or node in asking]
    ways += [(node, []) for node in way.direct if node not in over]
    found = []
    for node, onward in ways:
        first = tuple(to[server, node, shard] for shard, server in enumerate(servers))
        if min(one.start_s for one in first) <= until_s:
            further = {other: tuple(to[node, other, shard] for shard in shards) for other in onward}
            found.append(Begun(node, first, further))
    return found
