"""Dragonfly: groups of fully connected routers, joined by global links (Kim, Dally, Scott, Abts, ISCA 2008).

a routers a group, h global links and p hosts a router, g groups. A group acts as one router of a h global ports, so
up to a h + 1 groups can each have a link to every other (section 3.1). A balanced one has a = 2p = 2h.

The paper leaves open which port leads to which group. Here one port after another leads 1, 2, ... g - 1 groups back,
and again from 1 where ports are left, so that each pair of groups has the same number of links, give or take one. That
is the palmtree arrangement (Camarero, Vallejo, Beivide, TACO 2014). In it what comes from the group before arrives at a
group's first router, and what goes to the next one leaves at its last: a ring over the hosts in their order passes no
link twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.topologies.model import Link, Node, Path, Router, Topology
from testbed.topologies.parameters import at_least, check_size
from testbed.topologies.shortest import ShortestPaths


def dragonfly(
    rate_bps: int,
    delay_s: float,
    *,
    a: int,
    g: int,
    h: int,
    p: int = 0,
    routing: Literal["minimal", "ecmp"] = "minimal",
) -> Topology:
    """Groups of fully connected routers, every pair of groups joined by global links (Kim et al.).

    Router ``r<group>.<i>`` is a rack. Its ports 0 to p - 1 lead to its hosts, the next a - 1 to the others of its
    group in their order, the last h to other groups. Every link has the same rate. dragonfly(a=4,g=9,h=2) is the
    "standard" one of Rina section VI-A1: 36 routers, 72 hosts.

    Args:
        a: routers a group. g: groups. h: global links a router.
        p: hosts a router; 0, the default, takes h (balanced: p = h = a/2, section 3.1).
        routing: ``minimal`` (section 4.1): within a group to the router that has the link, over it, and within the
            other group; at most three hops, and one known path a pair, since each router chooses by the destination.
            ``ecmp`` lets every path of fewest hops carry traffic. Some of those pass a third group: two global hops
            are as short as local and global, and shorter than local, global, local.

    Raises:
        TopologyError: a count is too small, there are more groups than a group can have links to, or a port is left.
    """
    at_least("dragonfly", 1, a=a, h=h)
    at_least("dragonfly", 2, g=g)
    at_least("dragonfly", 0, p=p)
    hosts_each = p or h
    check_size("dragonfly", g * a * (2 * hosts_each + a - 1 + h) // 2, a=a, g=g, h=h, p=hosts_each)
    if g > a * h + 1:
        raise TopologyError(
            f"dragonfly: {g} groups cannot each have a link to every other: a group of a={a} routers with h={h} global "
            f"links each reaches {a * h}",
            fix=f"give g 2 to {a * h + 1}, or more routers (a) or global links (h)",
        )
    if g * a * h % 2:
        raise TopologyError(
            f"dragonfly: {g} groups of {a} routers with {h} global links each have {g * a * h} ends, an odd number",
            fix="make a, g or h even",
        )
    hosts = g * a * hosts_each
    nodes = [Node(f"h{host}", "host", 0, rack=host // hosts_each) for host in range(hosts)]
    nodes += [Node(f"r{group}.{i}", "switch", 1, rack=group * a + i) for group in range(g) for i in range(a)]
    links = [Link(host, 0, hosts + host // hosts_each, host % hosts_each, rate_bps, delay_s) for host in range(hosts)]
    wires = [  # each router of a group to each other
        (group * a + i, hosts_each + j - 1, group * a + j, hosts_each + i)
        for group in range(g)
        for i in range(a)
        for j in range(i + 1, a)
    ]
    wires += _global(a, g, h, hosts_each)
    links += [Link(hosts + x, x_port, hosts + y, y_port, rate_bps, delay_s) for x, x_port, y, y_port in wires]
    chosen: dict[str, object] = {"p": p} if p else {}
    if routing != "minimal":
        chosen["routing"] = routing
    router: Router = ShortestPaths(ecmp=True) if routing == "ecmp" else _Minimal(a, hosts_each, hosts, links)
    return Topology("dragonfly", {"a": a, "g": g, "h": h} | chosen, tuple(nodes), tuple(links), router)


Wire = tuple[int, int, int, int]
"""A link between routers: router, its port, router, its port."""


def _global(a: int, g: int, h: int, hosts_each: int) -> list[Wire]:
    """Wire groups: the n-th port that leads d groups back is joined with the n-th there that leads g - d back."""
    slots: dict[int, list[int]] = {}
    rounds, rest = divmod(a * h, g - 1)  # as many ports lead d groups back as lead d on
    half = rest // 2
    middle = [g // 2] if rest % 2 else []  # g is even then, as was checked: that far back is that far on
    last = [*range(1, half + 1), *middle, *range(g - half, g)]
    for slot, distance in enumerate([*range(1, g)] * rounds + last):
        slots.setdefault(distance, []).append(slot)
    wires = []
    for group in range(g):
        for distance, here in slots.items():
            other = (group - distance) % g
            if group < other:
                for out, back in zip(here, slots[g - distance], strict=True):
                    ends = [(where * a + slot // h, slot % h) for where, slot in ((group, out), (other, back))]
                    (x, x_port), (y, y_port) = ends
                    wires.append((x, hosts_each + a - 1 + x_port, y, hosts_each + a - 1 + y_port))
    return sorted(wires)


class _Minimal:
    """Minimal routing of Kim et al., section 4.1, hop by hop, each router choosing by the destination alone.

    A router takes its own link to the destination's group if it has one (step 1), else goes to a router of its group
    that has; of several links, one that ends at the destination's router if there is one, else by the destination.
    """

    def __init__(self, a: int, hosts_each: int, first: int, links: Sequence[Link]) -> None:
        """Set up; ``first`` is the first router's number, which is also that of the first link between routers."""
        self.a, self.hosts_each, self.first = a, hosts_each, first
        self.within: dict[tuple[int, int], int] = {}
        """The directed link between two routers of a group."""
        self.own: dict[tuple[int, int], list[int]] = {}
        """The directed links from a router to a group."""
        self.between: dict[tuple[int, int], list[int]] = {}
        """The directed links from a group to a group."""
        self.ends: dict[int, tuple[int, int]] = {}
        """The two routers of a directed link."""
        for number, link in enumerate(links[first:], start=first):
            for directed, tail, head in ((2 * number, link.a, link.b), (2 * number + 1, link.b, link.a)):
                self.ends[directed] = tail, head
                here, there = self.group(tail), self.group(head)
                if here == there:
                    self.within[tail, head] = directed
                else:
                    self.own.setdefault((tail, there), []).append(directed)
                    self.between.setdefault((here, there), []).append(directed)

    def group(self, router: int) -> int:
        return (router - self.first) // self.a

    def __call__(self, _: Topology, src: int, dst: int) -> tuple[Path, ...]:
        here, target = (self.first + host // self.hosts_each for host in (src, dst))
        links = [2 * src]
        while here != target:
            links.append(self.hop(here, target, dst))
            here = self.ends[links[-1]][1]
        return (Path((*links, 2 * dst + 1)),)

    def hop(self, here: int, target: int, dst: int) -> int:
        """Return the link that router ``here`` sends over towards host ``dst`` at router ``target``."""
        group, wanted = self.group(here), self.group(target)
        if group == wanted:
            return self.within[here, target]
        own = self.own.get((here, wanted))
        links = own or self.between[group, wanted]
        direct = [link for link in links if self.ends[link][1] == target] or links
        link = direct[dst % len(direct)]
        return link if own else self.within[here, self.ends[link][0]]
