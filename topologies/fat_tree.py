"""The k-ary fat-tree and its two-level routing (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008, sections 3.1 to 3.3).

k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts, every switch with k ports, every link of
the same rate: full bisection bandwidth. With s:1 oversubscription a pod has k/2s aggregation switches only, so that an
edge switch has k/2s uplinks, and there are as many fewer cores (TopoOpt, section 5.1: "half of the links at the ToR
uplink layer are omitted").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.base.listing import counted
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.parameters import MOST_LINKS, at_least, at_most, check_size


def fat_tree(
    rate_bps: int,
    delay_s: float,
    *,
    k: int,
    routing: Literal["two_level", "by_destination", "ecmp"] = "two_level",
    oversubscription: int = 1,
    hosts: int | None = None,
) -> Topology:
    """Three layers of k-port switches, by default with full bisection bandwidth (Al-Fares et al.).

    Host ``(p * k/2 + e) * k/2 + i`` is the i-th on edge switch ``e<p>.<e>`` of pod p. Port j of every ``a<p>.<a>``
    towards the cores leads to core ``c<j * k/2 + a>`` (consecutive ports on k/2 strides, section 3.1); with
    oversubscription the stride is the aggregation switches of a pod.

    Args:
        routing: ``two_level`` spreads by the destination's place on its edge switch, so each pair has one known path;
            ``by_destination`` lets all traffic for a host pass one aggregation switch a pod and one core, so that it
            merges as early as can be: "exactly one path from all nodes to the PS" (Rina section III-B; Al-Fares et
            al.'s routing is a tree to each host, too, but one through several switches a layer);
            ``ecmp`` lets every shortest path carry the same share.
        oversubscription: what an edge switch's hosts can send together, over what its uplinks can carry.
        hosts: only so many hosts, the first ones; all k^3/4 by default. Switches that no path between them passes are
            left out. Paths are those of the whole tree.

    Raises:
        TopologyError: k is odd or less than 2, the oversubscription does not divide k/2, or there are fewer hosts.
    """
    at_least("fat_tree", 2, k=k)
    if k % 2:
        raise TopologyError(f"fat_tree: k is {k}, which is odd", fix=f"give k an even number: {k - 1} or {k + 1}")
    whole_hosts = k**3 // 4
    check_size("fat_tree", min(hosts or whole_hosts, whole_hosts), k=k)
    with at_most(MOST_LINKS):  # the whole tree is laid, also for a few hosts of it
        check_size("fat_tree", 3 * whole_hosts, k=k)
    up = _uplinks(k, oversubscription)
    part: dict[str, object] = {} if hosts is None else {"hosts": hosts}
    check_size("fat_tree", _count(k, up, min(hosts or whole_hosts, whole_hosts)), k=k, **part)
    chosen = {"routing": (routing, "two_level"), "oversubscription": (oversubscription, 1)}
    params: dict[str, object] = {"k": k} | {name: value for name, (value, usual) in chosen.items() if value != usual}
    router = partial(_ROUTERS[routing], k // 2, up)
    half = k // 2
    nodes = [Node(f"h{h}", "host", 0, rack=h // half) for h in range(k * half * half)]
    nodes += [Node(f"e{p}.{e}", "switch", 1, rack=p * half + e) for p in range(k) for e in range(half)]
    nodes += [Node(f"a{p}.{a}", "switch", 2) for p in range(k) for a in range(up)]
    nodes += [Node(f"c{c}", "switch", 3) for c in range(up * half)]
    whole = Topology("fat_tree", params, tuple(nodes), _links(k, up, rate_bps, delay_s), router)
    return whole if hosts in (None, whole.host_count) else _first(whole, k // 2, hosts)


def _count(k: int, up: int, hosts: int) -> int:
    """Count the links between the first hosts."""
    half = k // 2
    racks, pods = -(-hosts // half), -(-hosts // half**2)
    return hosts + (racks * up if racks > 1 else 0) + (pods * up * half if pods > 1 else 0)


def _first(whole: Topology, half: int, hosts: int) -> Topology:
    """Return the tree of the first hosts. Nodes, links and ports that are left keep their order."""
    if not 1 <= hosts <= whole.host_count:
        raise TopologyError(
            f"fat_tree: hosts is {hosts}, and k={2 * half} gives {counted(whole.host_count, 'host')}",
            fix=f"give hosts 1 to {whole.host_count}",
        )
    racks, pods = -(-hosts // half), -(-hosts // half**2)
    kept = [i for i, node in enumerate(whole.nodes) if _is_kept(node, i, hosts, racks, pods)]
    number = {node: i for i, node in enumerate(kept)}
    left = [i for i, link in enumerate(whole.links) if link.a in number and link.b in number]
    ports = _renumbered(whole.links[i] for i in left)
    links = []
    for link in (whole.links[i] for i in left):
        a_port, b_port = ports[link.a, link.a_port], ports[link.b, link.b_port]
        links.append(replace(link, a=number[link.a], a_port=a_port, b=number[link.b], b_port=b_port))
    nodes, params = tuple(whole.nodes[i] for i in kept), {**whole.params, "hosts": hosts}
    router = partial(_of_first, whole, {old: new for new, old in enumerate(left)})
    return Topology("fat_tree", params, nodes, tuple(links), router)


def _of_first(whole: Topology, number: Mapping[int, int], _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    """Return the whole tree's paths; ``number`` has the links that are left."""
    paths = whole.paths(src, dst)
    return tuple(replace(path, links=tuple(2 * number[i // 2] + i % 2 for i in path.links)) for path in paths)


def _is_kept(node: Node, i: int, hosts: int, racks: int, pods: int) -> bool:
    """Whether a node is one of the first hosts, or a switch on a path between two of them."""
    if node.kind == "host":
        return i < hosts
    if node.rack is not None:  # an edge switch
        return node.rack < racks
    return racks > 1 and (pod_of(node) < pods if node.level == 2 else pods > 1)


def pod_of(node: Node) -> int:
    """Read the pod of an aggregation switch from its name."""
    return int(node.name[1:].partition(".")[0])


def _renumbered(links: Iterable[Link]) -> dict[tuple[int, int], int]:
    """Return for each (node, port) the port's number where each node's ports count from 0."""
    found: dict[tuple[int, int], int] = {}
    used: dict[int, int] = {}
    for node, port in sorted(end for link in links for end in ((link.a, link.a_port), (link.b, link.b_port))):
        found[node, port] = used[node] = used.get(node, -1) + 1
    return found


def _uplinks(k: int, oversubscription: int) -> int:
    """Count the uplinks of an edge switch, which are as many as a pod has aggregation switches."""
    half = k // 2
    if oversubscription < 1 or half % oversubscription:
        divisors = ", ".join(str(s) for s in range(1, half + 1) if half % s == 0)
        raise TopologyError(
            f"fat_tree: oversubscription is {oversubscription}, and k={k} gives an edge switch "
            f"{counted(half, 'uplink')}",
            fix=f"give oversubscription a divisor of k/2: {divisors}",
        )
    return half // oversubscription


def _links(k: int, up: int, rate_bps: int, delay_s: float) -> tuple[Link, ...]:
    """Make three runs of links: host to edge by host, edge to aggregation by (pod, edge, aggregation), aggregation to
    core by (pod, aggregation, port). Ports below k/2 lead down, the others up; a core's port p leads to pod p."""
    half = k // 2
    hosts = k * half * half
    edges, aggregations, cores = hosts, hosts + k * half, hosts + k * (half + up)
    links = [Link(h, 0, edges + h // half, h % half, rate_bps, delay_s) for h in range(hosts)]
    for p in range(k):
        for e in range(half):
            for a in range(up):
                edge, aggregation = edges + p * half + e, aggregations + p * up + a
                links.append(Link(edge, half + a, aggregation, e, rate_bps, delay_s))
    for p in range(k):
        for a in range(up):
            for j in range(half):
                aggregation, core = aggregations + p * up + a, cores + j * up + a
                links.append(Link(aggregation, half + j, core, p, rate_bps, delay_s))
    return tuple(links)


def _two_level(half: int, up: int, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    """Return the path by algorithm 1: switch z sends traffic for the i-th host of another subnet to its uplink (i + z)
    mod k/2; an edge switch with fewer takes it mod those."""
    edge, i = src // half % half, dst % half
    a = (i + edge) % up
    return (Path(_via(half, up, src, dst, a, (i + a) % half)),)


def _by_destination(half: int, up: int, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    """Return the path over the core that has the destination's place in its pod, and the aggregation switches on it."""
    return (Path(_via(half, up, src, dst, dst % up, dst // half % half)),)


def _ecmp(half: int, up: int, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
    ways = dict.fromkeys(_via(half, up, src, dst, a, j) for a in range(up) for j in range(half))
    return tuple(Path(links, 1 / len(ways)) for links in ways)


def _via(half: int, up: int, src: int, dst: int, a: int, j: int) -> tuple[int, ...]:
    """Return the way up no further than needed: aggregation switch a of both pods, and the core on its port j."""
    hosts = 2 * half**3
    uplinks = 2 * half**2 * up
    if src // half == dst // half:
        return 2 * src, 2 * dst + 1
    up_edge, down_edge = (2 * (hosts + host // half * up + a) for host in (src, dst))
    if src // half**2 == dst // half**2:
        return 2 * src, up_edge, down_edge + 1, 2 * dst + 1
    up_core, down_core = (2 * (hosts + uplinks + (host // half**2 * up + a) * half + j) for host in (src, dst))
    return 2 * src, up_edge, up_core, down_core + 1, down_edge + 1, 2 * dst + 1


_ROUTERS = {"two_level": _two_level, "by_destination": _by_destination, "ecmp": _ecmp}
