"""Expanders: servers that are linked to each other at random, and forward for each other, without a switch.

TopoOpt compares itself with "a fabric where each server has d NICs with bandwidth B interconnected via an Expander
topology" (section 5.1), and names two kinds. Jellyfish is a random regular graph (Singla, Hong, Popa, Godfrey, NSDI
2012). Xpander is a random lift of a complete graph (Valadarsky, Shahaf, Dinitz, Schapira, CoNEXT 2016). Both papers
join switches; here, as in TopoOpt, servers take their place.
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.parameters import at_least, check_size
from testbed.topologies.shortest import ShortestPaths, steps_from

Neighbours = list[set[int]]
"""The servers to which each server is linked."""


def expander(
    rate_bps: int,
    delay_s: float,
    *,
    servers: int,
    degree: int,
    kind: Literal["jellyfish", "xpander"] = "jellyfish",
    seed: int = 0,
    routing: Literal["shortest", "ecmp"] = "shortest",
) -> Topology:
    """Servers linked to each other at random, which forward (Jellyfish, Xpander).

    All servers can reach each other, and no two have more than one link. Port i of a server leads to the i-th of its
    neighbours by number.

    Args:
        servers: n.
        degree: d, the NICs of each server.
        kind: ``jellyfish`` joins random servers that have a port left; a server with ports left at the end takes the
            place of a random link (Singla et al.). ``xpander`` has d + 1 groups of n / (d + 1) servers, and a random
            matching between each two groups (Valadarsky et al.).
        seed: of the random choices. The same seed gives the same links.
        routing: ``shortest`` is one shortest path, over the lowest port where several are as short; ``ecmp`` lets every
            shortest path carry traffic.

    Raises:
        TopologyError: there is no such graph.
    """
    at_least("expander", 3, degree=degree)
    at_least("expander", 0, seed=seed)
    if servers <= degree:
        raise TopologyError(
            f"expander: {servers} servers cannot have {degree} neighbours each",
            fix=f"give {degree + 1} servers or more, or a smaller degree",
        )
    if kind == "xpander" and servers % (degree + 1):
        below = servers // (degree + 1) * (degree + 1)
        raise TopologyError(
            f"expander: an Xpander has degree + 1 = {degree + 1} groups of as many servers, and {servers} servers are "
            "no multiple of that",
            fix=f"give {below} or {below + degree + 1} servers, or take kind=jellyfish",
        )
    if servers * degree % 2:
        raise TopologyError(
            f"expander: {servers} servers with {degree} ports each have {servers * degree} ports, an odd number",
            fix="make servers or degree even",
        )
    check_size("expander", servers * degree // 2, servers=servers, degree=degree)
    random = Random(seed)
    draw = _jellyfish if kind == "jellyfish" else _xpander
    near = draw(servers, degree, random)
    while len(steps_from([0], near.__getitem__)) < servers:  # from degree 3 on, most graphs are connected
        near = draw(servers, degree, random)
    port = [{other: i for i, other in enumerate(sorted(others))} for others in near]
    links = [Link(a, port[a][b], b, port[b][a], rate_bps, delay_s) for a in range(servers) for b in port[a] if a < b]
    chosen = {"kind": (kind, "jellyfish"), "seed": (seed, 0), "routing": (routing, "shortest")}
    params: dict[str, object] = {"servers": servers, "degree": degree}
    params |= {name: value for name, (value, default) in chosen.items() if value != default}
    nodes = tuple(Node(f"h{s}", "host", 0) for s in range(servers))
    return Topology("expander", params, nodes, tuple(links), ShortestPaths(ecmp=routing == "ecmp"))


def _jellyfish(servers: int, degree: int, random: Random) -> Neighbours:
    """Draw a graph as Singla et al., section 3: random links between servers with a free port, until none can be added;
    then put the servers that are left into existing links."""
    near: Neighbours = [set() for _ in range(servers)]
    while free := [server for server in range(servers) if len(near[server]) < degree]:
        if all(b in near[a] for a, b in combinations(free, 2)):
            _put_into_a_link(near, free[0], free[-1], random)
            continue
        random.shuffle(free)
        for a, b in zip(free[::2], free[1::2], strict=False):
            if b not in near[a]:
                _join(near, a, b)
    return near


def _put_into_a_link(near: Neighbours, u: int, v: int, random: Random) -> None:
    """Replace a random link x-y by u-x and v-y. The paper has one u = v with two free ports; two that are already
    linked and have one each are the same."""
    found = [
        (x, y)
        for x in range(len(near))
        if x != u and x not in near[u]
        for y in sorted(near[x])
        if y not in (u, v) and y not in near[v]
    ]
    x, y = random.choice(found)  # of the d neighbours of any x, at most d - 1 are v or next to v
    near[x].remove(y)
    near[y].remove(x)
    _join(near, u, x)
    _join(near, v, y)


def _xpander(servers: int, degree: int, random: Random) -> Neighbours:
    """Draw a random lift of the complete graph of degree + 1 nodes: each node becomes a group, each edge a matching."""
    near: Neighbours = [set() for _ in range(servers)]
    size = servers // (degree + 1)
    for one, other in combinations(range(degree + 1), 2):
        for i, j in enumerate(random.sample(range(size), size)):
            _join(near, one * size + i, other * size + j)
    return near


def _join(near: Neighbours, a: int, b: int) -> None:
    near[a].add(b)
    near[b].add(a)
