"""A network from the names at both ends of its links, as a run recorded them: enough for a picture.

Reading a run must not run code, so a network from a user's own file is not built again by whoever reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from testbed.base.errors import TopologyError
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.shortest import steps_from


def from_links(called: str, ends: Sequence[tuple[str, str]], rate_bps: int) -> Topology:
    """Make the network of this name whose i-th link joins these two nodes.

    Nodes with the fewest links are taken for hosts, and the level of a switch is its distance from the nearest one.
    Nobody knows racks, or which switches add.
    """
    around: dict[str, list[str]] = defaultdict(list)
    for a, b in ends:
        around[a].append(b)
        around[b].append(a)
    fewest = min(map(len, around.values()), default=0)
    level = steps_from((name for name, others in around.items() if len(others) == fewest), around.__getitem__)
    level |= {name: 1 for name in around if name not in level}  # not joined to any host
    nodes = sorted(around, key=lambda name: level[name] > 0)  # a stable sort: hosts first, as recorded
    number = {name: i for i, name in enumerate(nodes)}
    ports: dict[str, int] = defaultdict(int)
    links = []
    for a, b in ends:
        links.append(Link(number[a], ports[a], number[b], ports[b], rate_bps))
        ports[a] += 1
        ports[b] += 1
    kinds = (Node(name, "switch" if level[name] else "host", level[name]) for name in nodes)
    return Topology(called, {}, tuple(kinds), tuple(links), _no_route)


def _no_route(topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
    del src, dst  # a router takes them
    raise TopologyError(f"it is not known how {topology.family} routes", fix="build it from its file")
