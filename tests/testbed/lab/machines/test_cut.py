from __future__ import annotations

from itertools import product

import pytest

from testbed.base.errors import SpecError
from testbed.lab.machines.cut import Cut, cut
from testbed.topologies.build import build
from testbed.topologies.model import Link, Node, Topology

NETWORKS = [
    "star(hosts=2)",
    "star(hosts=9)",
    "bcube(n=2,k=2)",
    "bcube(n=3,k=2)",
    "bcube(n=2,k=3)",
    "spine_leaf(racks=3,hosts_per_rack=3,spines=2)",
    "spine_leaf(racks=4,hosts_per_rack=1,spines=3)",
    "fat_tree(k=4)",
    "dragonfly(a=2,g=3,h=1)",
    "expander(servers=8,degree=3)",
    "patch_panel(servers=6,degree=2)",
]
NAMES = ["node1", "node2", "node3", "node4", "node5"]


def network(text: str) -> Topology:
    return build(text, rate_bps=10**9)


def hosts_of(topology: Topology, found: Cut, machines: int) -> list[int]:
    return [sum(node < topology.host_count for node in found.nodes(machine)) for machine in range(machines)]


def linked(hosts: int, *pairs: tuple[int, int], rates_bps: tuple[int, ...] = ()) -> Topology:
    """A network of one switch a host, which pairs of links join."""
    nodes = [Node(f"h{i}", "host", 0) for i in range(hosts)] + [Node(f"s{i}", "switch", 1) for i in range(hosts)]
    ports = [0] * hosts + [1] * hosts
    links = [Link(i, 0, hosts + i, 0, 10) for i in range(hosts)]
    for number, (a, b) in enumerate(pairs):
        a, b = hosts + a, hosts + b
        links.append(Link(a, ports[a], b, ports[b], rates_bps[number] if rates_bps else 1))
        ports[a], ports[b] = ports[a] + 1, ports[b] + 1
    return Topology("own", {}, tuple(nodes), tuple(links), lambda *_: ())


@pytest.mark.parametrize(("text", "count"), list(product(NETWORKS, range(1, 6))))
def test_every_machine_has_its_share_of_hosts_and_less_crosses_than_there_is(text: str, count: int) -> None:
    topology = network(text)
    found = cut(topology, NAMES[:count])
    hosts = hosts_of(topology, found, count)
    assert sorted(node for machine in range(count) for node in found.nodes(machine)) == list(range(len(topology.nodes)))
    assert sum(host > 0 for host in hosts) == min(count, topology.host_count)
    assert found == cut(topology, NAMES[:count])
    assert len(found.crossing(topology)) < len(topology.links)
    each_bps = [found.crossing_bps(topology, machine) for machine in range(count)]
    assert sum(each_bps) == 2 * sum(topology.links[link].rate_bps for link in found.crossing(topology))


@pytest.mark.parametrize(
    ("text", "count", "crossing", "hosts"),
    [
        ("star(hosts=9)", 3, 6, [3, 3, 3]),
        ("bcube(n=3,k=2)", 3, 6, [3, 3, 3]),  # by a switch of level 1 each, whose other two hosts are elsewhere
        ("bcube(n=2,k=2)", 2, 2, [2, 2]),
        ("spine_leaf(racks=4,hosts_per_rack=2,spines=2)", 2, 4, [4, 4]),
        ("fat_tree(k=4)", 2, 8, [8, 8]),  # by the cores: each has two pods on the other side
        ("fat_tree(k=4)", 4, 12, [4, 4, 4, 4]),
    ],
)
def test_the_least_crosses_where_the_least_is_known(text: str, count: int, crossing: int, hosts: list[int]) -> None:
    topology = network(text)
    found = cut(topology, NAMES[:count])
    assert len(found.crossing(topology)) == crossing
    assert hosts_of(topology, found, count) == hosts


@pytest.mark.parametrize("count", [2, 3])
def test_a_host_stays_with_its_first_switch(count: int) -> None:
    topology = network("bcube(n=3,k=2)")
    found = cut(topology, NAMES[:count])
    for host in topology.hosts:
        assert found.machine[host] == found.machine[topology.head(topology.ports[host][0])]


def test_what_has_more_between_it_stays_together_though_its_numbers_are_far_apart() -> None:
    topology = linked(6, (0, 3), (1, 4), (2, 5), (0, 1))
    found = cut(topology, NAMES[:3])
    assert [topology.links[link].a - 6 for link in found.crossing(topology)] == [0]
    pairs = [{found.machine[i], found.machine[i + 3]} for i in range(3)]
    assert sorted(pairs, key=min) == [{0}, {1}, {2}]


def test_rates_count_and_not_links() -> None:
    topology = linked(4, (0, 1), (2, 3), (0, 2), (1, 3), rates_bps=(3, 3, 10, 10))
    found = cut(topology, NAMES[:2])
    assert (found.crossing_bps(topology, 0), found.crossing_bps(topology, 1)) == (6, 6)


def test_nodes_that_the_user_has_placed_are_there_and_the_others_are_dealt_around_them() -> None:
    topology = network("star(hosts=9)")
    found = cut(topology, NAMES[:3], {"h0..h3": "node3", "s0": "node1"})
    assert [found.machine[node] for node in (0, 1, 2, 3, 9)] == [2, 2, 2, 2, 0]
    assert hosts_of(topology, found, 3) == [5, 0, 4]  # others go with their switch


def test_hosts_go_with_a_switch_that_is_placed_but_for_those_that_are_placed_themselves() -> None:
    topology = network("spine_leaf(racks=3,hosts_per_rack=2,spines=1)")
    found = cut(topology, NAMES[:3], {"leaf0": "node2", "h1": "node3"})
    machine = {node.name: found.machine[i] for i, node in enumerate(topology.nodes)}
    assert (machine["h0"], machine["leaf0"], machine["h1"]) == (1, 1, 2)
    assert hosts_of(topology, found, 3) == [2, 1, 3]


def test_all_can_be_placed() -> None:
    topology = network("star(hosts=2)")
    assert cut(topology, NAMES[:2], {"h0..h1": "node2", "s0": "node2"}).machine == (1, 1, 1)


@pytest.mark.parametrize(
    ("place", "problem", "fix"),
    [
        ({"h0": "node7"}, "h0 is placed on 'node7', which is no machine", "did you mean 'node2'?"),
        ({"h9": "node1"}, "star(hosts=3) has no node 'h9'", "use one of: h0, h1, h2, s0"),
        ({"h1..h7": "node1"}, "star(hosts=3) has no node 'h3'", "use one of: h0, h1, h2, s0"),
        ({"h2..h0": "node1"}, "h2..h0 is no run of nodes: its last comes before its first", "write h0..h3"),
        ({"h0..h1": "node1", "h1": "node2"}, "h1 is placed on node1 and on node2", "name it once"),
    ],
)
def test_a_place_that_cannot_be_is_refused(place: dict[str, str], problem: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        cut(network("star(hosts=3)"), NAMES[:2], place)
    assert (caught.value.problem, caught.value.fix) == (problem, fix)
