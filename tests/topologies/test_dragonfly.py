"""Dragonfly's counts, wiring and minimal paths against Kim et al. 2008; what cannot be wired."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.check import check
from testbed.topologies.model import Topology


def make(expression: str) -> Topology:
    return build(expression, rate_bps=1000)


@st.composite
def dragonflies(draw: st.DrawFn) -> Topology:
    a, h, p = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    g = draw(st.integers(2, a * h + 1))
    assume(a * g * h % 2 == 0)
    return make(f"dragonfly(a={a},g={g},h={h},p={p})")


def group_of(topology: Topology, node: int) -> str:
    return topology.nodes[node].name.removeprefix("r").partition(".")[0]


def test_rinas_dragonfly() -> None:
    """Rina section VI-A1: 36 routers, each a rack, and 72 workers; g = a h + 1, so each pair of groups has one link."""
    topology = make("dragonfly(a=4,g=9,h=2)")
    assert topology.host_count == 72
    assert len(topology.switches) == 36
    assert len(topology.links) == 72 + 9 * 6 + 36
    assert {len(topology.ports[router]) for router in topology.switches} == {2 + 3 + 2}
    racks = Counter(topology.nodes[host].rack for host in topology.hosts)
    assert set(racks.values()) == {2}
    assert {topology.nodes[router].rack for router in topology.switches} == set(racks) == set(range(36))
    assert set(global_links(topology).values()) == {1}


def global_links(topology: Topology) -> Counter[tuple[str, ...]]:
    """How many links each pair of groups has."""
    ends = [(group_of(topology, link.a), group_of(topology, link.b)) for link in topology.links[topology.host_count :]]
    return Counter(tuple(sorted(pair)) for pair in ends if pair[0] != pair[1])


@given(topology=dragonflies())
def test_wiring(topology: Topology) -> None:
    check("dragonfly", topology)
    a, g, h = (int(str(topology.params[name])) for name in "agh")
    hosts_each = int(str(topology.params.get("p", h)))
    assert topology.host_count == g * a * hosts_each
    assert {len(topology.ports[router]) for router in topology.switches} == {hosts_each + a - 1 + h}
    counts = global_links(topology)
    assert len(counts) == g * (g - 1) // 2
    assert sum(counts.values()) == g * a * h // 2
    assert max(counts.values()) - min(counts.values()) <= 1
    local = Counter(
        (link.a, link.b)
        for link in topology.links[topology.host_count :]
        if group_of(topology, link.a) == group_of(topology, link.b)
    )
    assert len(local) == g * a * (a - 1) // 2
    assert set(local.values()) <= {1}
    for host in topology.hosts:
        router = topology.head(topology.ports[host][0])
        assert topology.nodes[host].rack == topology.nodes[router].rack
        assert topology.head(topology.ports[router][host % hosts_each]) == host


@given(topology=dragonflies())
def test_minimal_paths_are_local_global_local(topology: Topology) -> None:
    """At most one global hop, and a local one only where it is needed; what one node does for a destination is one
    thing, so the paths to it are a tree."""
    for dst in topology.hosts:
        taken: dict[int, int] = {}
        for src in topology.hosts:
            (path,) = topology.paths(src, dst)
            nodes = [topology.tail(link) for link in path.links] + [dst] * (src != dst)
            assert len(set(nodes)) == len(nodes)
            kinds = "".join(kind_of(topology, link) for link in path.links[1:-1])
            same = src != dst and group_of(topology, nodes[1]) == group_of(topology, nodes[-2])
            assert kinds in (("", "l") if same or src == dst else ("g", "lg", "gl", "lgl"))
            for link in path.links:
                assert taken.setdefault(topology.tail(link), link) == link


def kind_of(topology: Topology, link: int) -> str:
    return "l" if group_of(topology, topology.tail(link)) == group_of(topology, topology.head(link)) else "g"


def test_a_worked_example() -> None:
    """Port q of a group (router q // h) leads q + 1 groups back: r0.0 to groups 8 and 7, r0.1 to 6 and 5, ..."""
    topology = make("dragonfly(a=4,g=9,h=2)")
    outward = [
        [topology.nodes[topology.head(link)].name for link in topology.ports[topology.index[f"r0.{i}"]][-2:]]
        for i in range(4)
    ]
    assert outward == [["r8.3", "r7.3"], ["r6.2", "r5.2"], ["r4.1", "r3.1"], ["r2.0", "r1.0"]]

    def names(src: int, dst: int) -> list[str]:
        return [topology.nodes[topology.head(link)].name for link in topology.paths(src, dst)[0].links]

    assert names(0, 1) == ["r0.0", "h1"]
    assert names(0, 7) == ["r0.0", "r0.3", "h7"]
    assert names(7, 8) == ["r0.3", "r1.0", "h8"]
    assert names(0, 8) == ["r0.0", "r0.3", "r1.0", "h8"]
    assert names(2, 14) == ["r0.1", "r0.3", "r1.0", "r1.3", "h14"]
    assert names(14, 2) == ["r1.3", "r1.0", "r0.3", "r0.1", "h2"]


def test_a_ring_over_the_hosts_in_order_passes_no_link_twice() -> None:
    """Rina section III-A holds a ring free of bottlenecks whatever the network; here it is."""
    for expression in ("dragonfly(a=4,g=9,h=2)", "dragonfly(a=2,g=3,h=1)", "dragonfly(a=6,g=7,h=1)"):
        topology = make(expression)
        hosts = topology.hosts
        passed = [link for src in hosts for link in topology.paths(src, (src + 1) % len(hosts))[0].links]
        assert len(set(passed)) == len(passed)


def test_several_links_between_two_groups_are_all_used() -> None:
    topology = make("dragonfly(a=4,g=3,h=2)")
    assert set(global_links(topology).values()) == {4}
    used = {link for src in topology.hosts for dst in topology.hosts for link in topology.paths(src, dst)[0].links}
    assert used == set(range(2 * len(topology.links)))


def test_ecmp_may_pass_a_third_group() -> None:
    """Two global hops are shorter than local, global, local."""
    minimal, ecmp = make("dragonfly(a=4,g=9,h=2)"), make("dragonfly(a=4,g=9,h=2,routing=ecmp)")
    lengths: Counter[tuple[int, int]] = Counter()
    several = 0
    for src, dst in combinations(minimal.hosts, 2):
        found = ecmp.paths(src, dst)
        several += len(found) > 1
        lengths[len(minimal.paths(src, dst)[0].links), len(found[0].links)] += 1
        assert sum(path.weight for path in found) == pytest.approx(1)
    assert several
    assert set(lengths) == {(2, 2), (3, 3), (4, 4), (5, 4), (5, 5)}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "dragonfly(a=4,g=10,h=2)",
            "dragonfly: 10 groups cannot each have a link to every other: a group of a=4 routers with h=2 global links "
            "each reaches 8\n  fix: give g 2 to 9, or more routers (a) or global links (h)",
        ),
        (
            "dragonfly(a=3,g=3,h=1)",
            "dragonfly: 3 groups of 3 routers with 1 global links each have 9 ends, an odd number\n"
            "  fix: make a, g or h even",
        ),
        ("dragonfly(a=4,g=1,h=2)", "dragonfly: g is 1\n  fix: give g at least 2"),
        ("dragonfly(a=0,g=2,h=2)", "dragonfly: a is 0\n  fix: give a at least 1"),
        ("dragonfly(a=4,g=9,h=2,p=-1)", "dragonfly: p is -1\n  fix: give p at least 0"),
        (
            "dragonfly(a=4,g=9)",
            "dragonfly needs a value for h\n  fix: write it as dragonfly(a=...,g=...,h=...,p=0,routing=minimal)",
        ),
        (
            "dragonfly(a=999999,g=9,h=2)",
            "dragonfly with a=999999, g=9, h=2, p=2 has more than 262,144 links, the most that can be built\n"
            "  fix: make it smaller",
        ),
    ],
)
def test_texts(expression: str, text: str) -> None:
    with pytest.raises(TopologyError) as error:
        make(expression)
    assert str(error.value) == text
