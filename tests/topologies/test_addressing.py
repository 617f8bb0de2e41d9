"""Subnets are disjoint, as small as they can be, and shared by exactly the ports that reach each other directly."""

from __future__ import annotations

from ipaddress import ip_interface, ip_network
from itertools import pairwise, permutations

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import Addresses, plan
from testbed.topologies.build import build
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths

EXPRESSIONS = [
    "star(hosts=1)",
    "star(hosts=9)",
    "star(hosts=5,server_nics=3)",
    "star(hosts=62)",
    "star(hosts=63)",
    "bcube(n=3,k=2)",
    "bcube(n=2,k=4)",
    "fat_tree(k=2)",
    "fat_tree(k=4)",
    "fat_tree(k=4,routing=ecmp)",
    "spine_leaf(racks=2,hosts_per_rack=4,spines=1)",
    "dragonfly(a=4,g=9,h=2)",
    "dragonfly(a=1,g=2,h=2)",
    "spine_leaf(racks=3,hosts_per_rack=2,spines=2,routing=ecmp)",
]


def planned(expression: str) -> Addresses:
    return plan(build(expression, rate_bps=1000))


def network(links: list[Link], *, hosts: int, switches: int) -> Topology:
    nodes = [Node(f"h{h}", "host", 0) for h in range(hosts)] + [Node(f"s{s}", "switch", 1) for s in range(switches)]
    return Topology("mine", {}, tuple(nodes), tuple(links), ShortestPaths())


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_port_has_an_address_of_its_own_in_10(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    assert set(addresses.host) == {(h, p) for h in topology.hosts for p in range(len(topology.ports[h]))}
    routing = [switch for switch, mode in addresses.mode.items() if mode == "route"]
    assert set(addresses.port) == {(s, p) for s in routing for p in range(len(topology.ports[s]))}
    every = [ip_interface(f"{a}/{length}") for a, length in [*addresses.host.values(), *addresses.port.values()]]
    assert len({each.ip for each in every}) == len(every)
    for each in every:
        assert each.ip in ip_network("10.0.0.0/8")
        if each.network.prefixlen < 31:
            assert each.ip not in (each.network.network_address, each.network.broadcast_address)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_subnets_are_disjoint_and_hold_the_ports_that_reach_each_other(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    members: dict[str, set[tuple[int, int]]] = {}
    for port, (address, length) in (addresses.host | addresses.port).items():
        members.setdefault(str(ip_interface(f"{address}/{length}").network), set()).add(port)
    expected = []
    for switch, mode in addresses.mode.items():
        if mode == "bridge":
            expected.append({(topology.head(d), topology.port_at_tail(d ^ 1)) for d in topology.ports[switch]})
    routed = [link for link in topology.links if addresses.mode.get(link.b) != "bridge"]
    expected += [{(link.a, link.a_port), (link.b, link.b_port)} for link in routed]
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, expected))
    subnets = sorted(ip_network(text) for text in members)
    for lower, higher in pairwise(subnets):
        assert lower.broadcast_address < higher.network_address


@pytest.mark.parametrize(("hosts", "length"), [(1, 30), (2, 30), (3, 29), (6, 29), (7, 28), (62, 26), (63, 25)])
def test_a_bridge_has_the_smallest_prefix_that_fits(hosts: int, length: int) -> None:
    assert {prefix for _, prefix in planned(f"star(hosts={hosts})").host.values()} == {length}


def test_modes() -> None:
    assert set(planned("bcube(n=3,k=2)").mode.values()) == {"bridge"}
    assert set(planned("fat_tree(k=4)").mode.values()) == {"route"}
    assert set(planned("spine_leaf(racks=1,hosts_per_rack=4,spines=1)").mode.values()) == {"route"}


def test_a_host_with_two_cables_to_a_switch_makes_it_route() -> None:
    topology = network([Link(0, 0, 2, 0, 1), Link(0, 1, 2, 1, 1), Link(1, 0, 2, 2, 1)], hosts=2, switches=1)
    assert plan(topology).mode == {2: "route"}


def test_hosts_linked_directly_share_a_pair() -> None:
    addresses = plan(network([Link(0, 0, 1, 0, 1)], hosts=2, switches=0))
    assert addresses.host == {(0, 0): ("10.0.0.2", 31), (1, 0): ("10.0.0.3", 31)}
    assert addresses.flow(0, 1) == ("10.0.0.2", "10.0.0.3")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_both_ends_of_a_connection_compute_the_same_addresses(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    for src, dst in permutations(topology.hosts, 2):
        flow = addresses.flow(src, dst)
        assert flow == addresses.flow(dst, src)[::-1]
        arrival = topology.paths(src, dst)[0].links[-1] ^ 1
        assert flow[1] == addresses.host[dst, topology.port_at_tail(arrival)][0]


def test_bcube_neighbours_talk_within_the_subnet_of_their_switch() -> None:
    addresses = planned("bcube(n=3,k=2)")
    assert addresses.flow(0, 2) == (addresses.host[0, 0][0], addresses.host[2, 0][0])
    assert addresses.flow(0, 6) == (addresses.host[0, 1][0], addresses.host[6, 1][0])


def test_a_host_has_no_connection_to_itself() -> None:
    with pytest.raises(TopologyError, match=r"no NIC lies between h1 and itself\n  fix: use two different hosts"):
        planned("star(hosts=2)").flow(1, 1)


def test_too_many_addresses() -> None:
    links = [Link(2 * i, 0, 2 * i + 1, 0, 1) for i in range(3)]
    topology = network(links, hosts=6, switches=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("testbed.topologies.addressing._ROOM", 4)
        with pytest.raises(TopologyError, match=r"mine\(\) needs 8 addresses; 10\.0\.0\.0/8 has 4"):
            plan(topology)
