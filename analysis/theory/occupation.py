"""Rina's bandwidth-occupation model (BOM) of a parameter server with in-network aggregation (INA), such as ATP.

Every worker sends its gradient to one parameter server (PS) along the topology's paths, which form a tree. Rina section
III-B says what a worker's rate is then, as a share of a link's rate B0:

- Lemma 1: where n flows share a link, each has 1/n of it.
- Lemma 2: an INA switch and all below it are one flow to whatever is above it.
- Lemma 3: an INA switch is as fast as its slowest child; so, all workers being synchronous, the link with the most
  flows sets the rate of all.

The paper's assumptions: INA switches add as fast as links bring, there is one path from each node to the PS, all links
have the same rate. And what it leaves open, and is taken here: a PS on a worker's host ("co-located", section VI-A4)
gets that worker's own gradient over no link; where links do differ, a link counts by its rate over that of the PS's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from testbed.base.errors import TopologyError
from testbed.topologies.ina import replacement_order
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths


@dataclass(frozen=True)
class Occupation:
    """Shares of the links to the PS that the gradients of all workers take.

    Attributes:
        flows: by node of the tree but the PS, how many flows leave it towards the PS.
        limit: by the same, the rate of each of those flows that its link allows, over B0.
        share: rate of every worker over B0, the least of the limits (lemma 3).
    """

    flows: dict[int, int]
    limit: dict[int, float]
    share: float


def occupation(
    topology: Topology, ps: int, ina: Collection[int] = (), workers: Iterable[int] | None = None
) -> Occupation:
    """The rate of each worker where the switches ``ina`` add.

    Args:
        ps: the host of the parameter server.
        workers: hosts that send a gradient; every host by default, the PS's own over no link.

    Raises:
        TopologyError: the paths to the PS are no tree, or no other host is a worker.
    """
    out = tree_to(topology, ps, workers)
    sending = set(topology.hosts if workers is None else workers)
    flows = {node: int(node in sending) for node in out}

    def hops(node: int) -> int:
        count = 0
        while node != ps:
            node, count = topology.head(out[node]), count + 1
        return count

    for node in sorted(out, key=hops, reverse=True):
        if node in ina:
            flows[node] = 1
        above = topology.head(out[node])
        if above != ps:
            flows[above] += flows[node]
    rate_bps = topology.links[topology.ports[ps][0] // 2].rate_bps
    limit = {node: topology.links[out[node] // 2].rate_bps / rate_bps / count for node, count in flows.items()}
    return Occupation(flows, limit, min(limit.values()))


def worked_example() -> Occupation:
    """Section III-B's, figure 4: the PS (host 0) and worker 7 on switch 4; on that, INA switch 3 with workers 1 and 2;
    on that, switch 2 with workers 5 and 6 and switch 1, which has 3 and 4. Switches 1 to 4 are nodes 8 to 11."""
    above = [11, 10, 10, 8, 8, 9, 9, 11, 9, 10, 11]
    used = [0] * (len(above) + 1)
    links = []
    for node, parent in enumerate(above):
        links.append(Link(node, used[node], parent, used[parent], 10**9))
        used[node], used[parent] = used[node] + 1, used[parent] + 1
    nodes = [Node(f"w{h}", "host", 0) for h in range(8)] + [Node(f"s{s}", "switch", 1) for s in range(1, 5)]
    network = Topology("figure_4", {}, tuple(nodes), tuple(links), ShortestPaths())
    return occupation(network, 0, (10,), range(1, 8))


def tree_to(topology: Topology, ps: int, workers: Iterable[int] | None = None) -> dict[int, int]:
    """Return, by node on a worker's path to ``ps``, the directed link by which it sends there.

    Raises:
        TopologyError: a node would send over several, or there is no worker but the PS.
    """
    out: dict[int, int] = {}
    for worker in topology.hosts if workers is None else workers:
        for path in topology.paths(worker, ps):
            for link in path.links:
                node = topology.tail(link)
                if out.setdefault(node, link) != link:
                    raise TopologyError(
                        f"{topology.expression}: {topology.nodes[node].name} has more than one way to "
                        f"{topology.nodes[ps].name}, and the model knows one path from each node",
                        fix="take a routing with one known path, such as by_destination",
                    )
    if not out:
        raise TopologyError(
            f"{topology.expression}: no host but {topology.nodes[ps].name} is a worker", fix="take two hosts or more"
        )
    return out


def to_replace(topology: Topology, ps: int) -> list[int]:
    """The switches of the tree to ``ps`` in the order in which Rina section IV-D replaces them by INA ones.

    As :func:`testbed.topologies.ina.replacement_order`, which says what decides where the section does not; without
    those that are not in the tree, as seven of fat_tree(k=4)'s twenty, and so would add nothing.
    """
    tree = tree_to(topology, ps)
    return [switch for switch in replacement_order(topology, ps) if switch in tree]
