"""Counts, wiring and paths of each family, against the papers' formulas and against shortest paths found by search."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.check import check
from testbed.topologies.describe import bisection_bps
from testbed.topologies.model import Topology
from testbed.topologies.places import frames
from testbed.topologies.shortest import ShortestPaths

RATE_BPS = 200_000_000

SMALL = (
    [f"star(hosts={hosts})" for hosts in range(1, 10)]
    + [f"star(hosts={hosts},server_nics={nics})" for hosts, nics in ((1, 2), (2, 3), (5, 4), (9, 2))]
    + ["star(hosts=3,routing=every_nic)"]
    + [
        f"spine_leaf(racks={racks},hosts_per_rack={hosts},spines=2,server_nics={nics})"
        for racks, hosts, nics in ((1, 1, 2), (2, 2, 3), (3, 3, 2))
    ]
    + [f"bcube(n={n},k={k})" for n, k in [(2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (5, 2), (2, 3), (3, 3), (2, 4)]]
    + [f"fat_tree(k={k},routing={routing})" for k in (2, 4, 6) for routing in ("two_level", "by_destination", "ecmp")]
    + [f"fat_tree(k=4,routing={routing},oversubscription=2)" for routing in ("two_level", "by_destination", "ecmp")]
    + [f"expander(servers=8,degree=3,kind={kind},seed=5)" for kind in ("jellyfish", "xpander")]
    + ["expander(servers=9,degree=4,routing=ecmp)"]
    + ["cloud(rows=1,racks=1,hosts_per_rack=3)", "cloud(rows=2,racks=2,hosts_per_rack=3)", "cloud(sizes=[3,2,1])"]
    + [
        f"spine_leaf(racks={racks},hosts_per_rack={hosts},spines={spines},routing={routing})"
        for racks in (1, 2, 3)
        for hosts in (1, 2, 3)
        for spines in (1, 2, 3)
        for routing in ("by_destination", "ecmp")
    ]
)


def make(expression: str) -> Topology:
    return build(expression, rate_bps=RATE_BPS)


def by_level(topology: Topology) -> Counter[int]:
    return Counter(node.level for node in topology.nodes)


@pytest.mark.parametrize("expression", SMALL)
def test_every_small_network_keeps_the_rules(expression: str) -> None:
    topology = make(expression)
    check(expression, topology)
    assert make(topology.expression) == topology
    assert [node.name for node in topology.nodes][: topology.host_count] == [f"h{h}" for h in topology.hosts]
    assert {link.rate_bps for link in topology.links if link.a < topology.host_count} == {RATE_BPS}


@pytest.mark.parametrize("expression", SMALL)
def test_paths_are_connected_and_shortest(expression: str) -> None:
    topology = make(expression)
    search = ShortestPaths(ecmp=True)
    for src in topology.hosts:
        for dst in topology.hosts:
            paths = topology.paths(src, dst)
            assert sum(path.weight for path in paths) == pytest.approx(1)
            shortest = {path.links for path in search(topology, src, dst)} if src != dst else {()}
            if topology.params.get("routing") == "ecmp":
                assert {path.links for path in paths} == shortest
                assert len({path.weight for path in paths}) == 1
            else:
                assert len(paths) == 1
                assert paths[0].links in shortest


@given(hosts=st.integers(1, 500))
def test_star_counts(hosts: int) -> None:
    topology = make(f"star(hosts={hosts})")
    assert by_level(topology) == {0: hosts, 1: 1}
    assert len(topology.links) == hosts


@given(n=st.integers(2, 8), k=st.integers(1, 3))
def test_bcube_counts_and_wiring(n: int, k: int) -> None:
    topology = make(f"bcube(n={n},k={k})")
    assert by_level(topology) == {0: n**k} | {level + 1: n ** (k - 1) for level in range(k)}
    assert len(topology.links) == k * n**k
    for switch in topology.switches:
        level = topology.nodes[switch].level - 1
        members = [topology.head(directed) for directed in topology.ports[switch]]
        assert [member // n**level % n for member in members] == list(range(n))
        assert len({(member // n ** (level + 1), member % n**level) for member in members}) == 1


def test_bcube_16_4_has_the_papers_counts() -> None:
    topology = make("bcube(n=16,k=4)")
    assert topology.host_count == 65_536
    assert len(topology.switches) == 16_384
    assert len(topology.links) == 4 * 65_536
    path = topology.paths(0x1234, 0xABCD)[0]
    servers = [topology.head(link) for link in path.links if topology.head(link) < topology.host_count]
    assert servers == [0xA234, 0xAB34, 0xABC4, 0xABCD]


@given(n=st.integers(2, 6), k=st.integers(1, 3), data=st.data())
def test_bcube_neighbours_use_the_switch_they_share(n: int, k: int, data: st.DataObject) -> None:
    topology = make(f"bcube(n={n},k={k})")
    src = data.draw(st.sampled_from(topology.hosts))
    level = data.draw(st.integers(0, k - 1))
    digit = src // n**level % n
    other = data.draw(st.sampled_from([d for d in range(n) if d != digit]))
    up, down = topology.paths(src, src + (other - digit) * n**level)[0].links
    assert topology.head(up) == topology.tail(down)
    assert topology.nodes[topology.head(up)].name.startswith(f"s{level}.")
    assert topology.port_at_tail(up) == level


@pytest.mark.parametrize("k", [2, 4, 6, 8, 16])
def test_fat_tree_counts(k: int) -> None:
    topology = make(f"fat_tree(k={k})")
    assert by_level(topology) == {0: k**3 // 4, 1: k * k // 2, 2: k * k // 2, 3: (k // 2) ** 2}
    assert {len(topology.ports[switch]) for switch in topology.switches} == {k}
    assert len(topology.links) == 3 * k**3 // 4
    for core in topology.switches[-((k // 2) ** 2) :]:
        pods = [topology.nodes[topology.head(directed)].name.partition(".")[0] for directed in topology.ports[core]]
        assert pods == [f"a{pod}" for pod in range(k)]


def test_fat_tree_two_level_routing_is_algorithm_1() -> None:
    """Worked by hand for k = 4: host h0 (pod 0, edge 0) to the two hosts on edge 0 of pod 1."""
    topology = make("fat_tree(k=4)")

    def names(src: int, dst: int) -> list[str]:
        return [topology.nodes[topology.head(link)].name for link in topology.paths(src, dst)[0].links]

    assert names(0, 4) == ["e0.0", "a0.0", "c0", "a1.0", "e1.0", "h4"]
    assert names(0, 5) == ["e0.0", "a0.1", "c1", "a1.1", "e1.0", "h5"]
    assert names(2, 4) == ["e0.1", "a0.1", "c3", "a1.1", "e1.0", "h4"]
    assert names(0, 2) == ["e0.0", "a0.0", "e0.1", "h2"]
    assert names(0, 1) == ["e0.0", "h1"]


@pytest.mark.parametrize("k", [4, 6, 8])
def test_fat_tree_spreads_a_pod_permutation_over_all_cores(k: int) -> None:
    """Every host of pod 0 sends to its counterpart in pod 1: each core carries exactly one flow."""
    topology = make(f"fat_tree(k={k})")
    per_pod = k * k // 4
    cores = Counter(topology.head(topology.paths(h, h + per_pod)[0].links[2]) for h in range(per_pod))
    assert sorted(cores.values()) == [1] * per_pod


@pytest.mark.parametrize("expression", [each for each in SMALL if "ecmp" not in each and "nics" not in each])
def test_paths_to_a_host_are_a_tree(expression: str) -> None:
    """Rina section III-B: "exactly one path from all nodes to the PS". A host's NIC may depend on the worker."""
    topology = make(expression)
    for dst in topology.hosts:
        assert len(tree_to(topology, dst)) == len(links_to(topology, dst))


def links_to(topology: Topology, dst: int) -> set[int]:
    return {link for src in topology.hosts for path in topology.paths(src, dst) for link in path.links}


def tree_to(topology: Topology, dst: int) -> set[int]:
    """The nodes that send towards a host."""
    return {topology.tail(link) for link in links_to(topology, dst)}


@pytest.mark.parametrize("k", [4, 6, 8])
def test_fat_tree_by_destination_merges_as_early_as_can_be(k: int) -> None:
    """Of the switches, each edge switch, one aggregation switch a pod and one core are on the way to a host; a host
    next to another on an edge switch gets another aggregation switch, and the hosts of a pod get all the cores."""
    topology = make(f"fat_tree(k={k},routing=by_destination)")
    cores: Counter[str] = Counter()
    for dst in topology.hosts:
        levels = Counter(topology.nodes[node].level for node in tree_to(topology, dst))
        assert levels == {0: topology.host_count - 1, 1: k * k // 2, 2: k, 3: 1}
        cores += Counter(
            node.name for node in map(topology.nodes.__getitem__, tree_to(topology, dst)) if node.level == 3
        )
    assert len(cores) == (k // 2) ** 2
    assert set(cores.values()) == {k}


def test_an_oversubscribed_fat_tree_lacks_half_of_the_uplinks_and_what_they_lead_to() -> None:
    topology = make("fat_tree(k=8,oversubscription=2)")
    assert by_level(topology) == {0: 128, 1: 32, 2: 16, 3: 8}
    uplinks = Counter(topology.nodes[link.a].level for link in topology.links)
    assert uplinks == {0: 128, 1: 64, 2: 64}
    assert bisection_bps(topology) == 32 * RATE_BPS
    assert frames(topology)["pod 7"][-2:] == [topology.index["a7.0"], topology.index["a7.1"]]


def test_half_of_the_uplinks_carry_half_between_two_halves() -> None:
    """Two pods have eight hosts and four edge switches, each with one uplink of two left."""
    assert bisection_bps(make("fat_tree(k=4,oversubscription=2)")) == 4 * RATE_BPS
    assert bisection_bps(make("fat_tree(k=4)")) == 8 * RATE_BPS


@pytest.mark.parametrize(("oversubscription", "uplink_bps"), [(1, 400_000_000), (2, 200_000_000), (2.5, 160_000_000)])
def test_spine_leaf_uplinks_follow_from_oversubscription(oversubscription: float, uplink_bps: int) -> None:
    topology = make(f"spine_leaf(racks=3,hosts_per_rack=4,spines=2,oversubscription={oversubscription})")
    assert by_level(topology) == {0: 12, 1: 3, 2: 2}
    uplinks = [link for link in topology.links if link.a >= topology.host_count]
    assert len(uplinks) == 6
    assert {link.rate_bps for link in uplinks} == {uplink_bps}


def test_spine_leaf_chooses_the_spine_by_destination() -> None:
    topology = make("spine_leaf(racks=2,hosts_per_rack=4,spines=3)")
    for dst in range(4, 8):
        spines = {topology.nodes[topology.head(topology.paths(src, dst)[0].links[1])].name for src in range(4)}
        assert spines == {f"spine{dst % 3}"}


@pytest.mark.parametrize(
    "expression",
    [
        *("star(hosts=3)", "bcube(n=3,k=2)", "fat_tree(k=4)", "spine_leaf(racks=2,hosts_per_rack=2,spines=2)"),
        *("dragonfly(a=2,g=3,h=1)", "dragonfly(a=2,g=3,h=1,routing=ecmp)"),
    ],
)
def test_a_network_can_be_pickled(expression: str) -> None:
    topology = make(expression)
    again = pickle.loads(pickle.dumps(topology))
    assert again == topology
    assert again.paths(0, 2) == topology.paths(0, 2)


def test_delay_reaches_every_link() -> None:
    assert {link.delay_s for link in build("fat_tree(k=4)", rate_bps=1, delay_s=0.002).links} == {0.002}


@pytest.mark.parametrize(("src", "dst"), [(-1, 0), (0, 99)])
def test_paths_lead_from_node_to_node(src: int, dst: int) -> None:
    with pytest.raises(TopologyError, match=r"node (-1|99) is not a host\n  fix: use a host, 0 to 8"):
        make("star(hosts=9)").paths(src, dst)


@pytest.mark.parametrize(("src", "dst"), [(0, 9), (9, 0)])
def test_paths_do_not_end_at_a_switch_that_only_forwards(src: int, dst: int) -> None:
    with pytest.raises(TopologyError) as caught:
        make("star(hosts=9)").paths(src, dst)
    assert str(caught.value) == "s0 is a switch that only forwards\n  fix: use a host, or add ina=[s0]"
