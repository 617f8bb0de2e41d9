"""Bursts use every NIC once each way; and servers with several NICs."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.topologies.addressing import plan, routes
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.trial.job_files import peer

NETWORKS = [
    *("star(hosts=9)", "bcube(n=3,k=2)", "fat_tree(k=4)", "spine_leaf(racks=2,hosts_per_rack=4,spines=1)"),
    *("expander(servers=8,degree=3)", "expander(servers=4,degree=3)", "cloud(rows=2,racks=2)"),
]


@pytest.mark.parametrize("expression", NETWORKS)
def test_the_burst_loads_every_nic_once_each_way_and_no_link_twice(expression: str) -> None:
    topology = build(expression, rate_bps=10**9)
    found = topology.bursts
    nics = {link for host in topology.hosts for link in topology.ports[host]}
    assert {burst.src_link for burst in found} == nics
    assert {burst.dst_link ^ 1 for burst in found} == nics
    load = Counter(link for b in found for path in topology.paths(b.src, b.dst) for link in path.links)
    assert max(load.values()) == 1


def test_hosts_that_reach_no_other_through_a_switch_have_no_burst() -> None:
    assert build("star(hosts=1)", rate_bps=10**9).bursts == ()


def test_a_host_does_not_send_a_burst_to_itself() -> None:
    """A PBox has several NICs on the switch, where all others have one, which send to each other."""
    found = build("star(hosts=4,server_nics=3)", rate_bps=10**9).bursts
    assert [(burst.src, burst.dst) for burst in found] == [(0, 1), (1, 2), (2, 0)]


def test_bursts_are_worked_out_once() -> None:
    topology = build("star(hosts=3)", rate_bps=10**9)
    assert topology.bursts is topology.bursts


def net(expression: str) -> Topology:
    return build(expression, rate_bps=1000)


def nics_at(topology: Topology, host: int, src: int, dst: int) -> list[int]:
    """NIC of the host that each connection passes."""
    links = [paths[0].links for paths in topology.connections(src, dst)]
    return [topology.port_at_tail(one[0] if host == src else one[-1] ^ 1) for one in links]


def test_every_nic_of_a_star() -> None:
    topology = net("star(hosts=9,server_nics=8,routing=every_nic)")
    assert topology.is_parallel
    for worker in range(8):
        assert nics_at(topology, 8, worker, 8) == nics_at(topology, 8, 8, worker) == [*range(8)]
        assert [path.weight for path in topology.paths(worker, 8)] == [1 / 8] * 8
    assert len(topology.connections(0, 1)) == 1


def test_every_nic_of_the_last_host_of_each_rack() -> None:
    topology = net("spine_leaf(racks=2,hosts_per_rack=3,spines=2,server_nics=4,routing=every_nic)")
    assert [len(ports) for ports in topology.ports[:6]] == [1, 1, 4, 1, 1, 4]
    for worker in (0, 1, 3, 4):
        for server in (2, 5):
            assert nics_at(topology, server, worker, server) == nics_at(topology, server, server, worker) == [*range(4)]
    assert nics_at(topology, 2, 2, 5) == nics_at(topology, 5, 2, 5) == [*range(4)], "NIC to NIC between two boxes"
    assert {topology.links[link // 2].rate_bps for path in topology.paths(0, 5) for link in path.links[1:3]} == {3000}


@pytest.mark.parametrize("routing", ["by_destination", "ecmp"])
def test_one_nic_for_each_host_without_it(routing: str) -> None:
    topology = net(f"spine_leaf(racks=2,hosts_per_rack=3,spines=2,server_nics=2,routing={routing})")
    assert not topology.is_parallel
    for server in (2, 5):
        found = {other: (nics_at(topology, server, other, server), nics_at(topology, server, server, other))
                 for other in topology.hosts if other != server}  # fmt: skip
        assert found == {other: ([other % 2], [other % 2]) for other in found}


def test_one_nic_is_the_star_as_it_was() -> None:
    plain, every = net("star(hosts=4)"), net("star(hosts=4,routing=every_nic)")
    assert every.expression == "star(hosts=4,routing=every_nic)"
    for a in range(4):
        for b in set(range(4)) - {a}:
            assert plain.paths(a, b) == every.paths(a, b)


def test_a_server_answers_from_the_nic_that_was_asked() -> None:
    """A worker has one address, so the server's route to it has a hop for each NIC, and sockets are bound to theirs."""
    topology = net("star(hosts=3,server_nics=2,routing=every_nic)")
    addresses = plan(topology)
    ours = [peer(addresses, 2, 0, 1, connection) for connection in range(2)]
    theirs = [peer(addresses, 0, 2, 1, connection) for connection in range(2)]
    assert [one.bound for one in ours] == [True, True]
    assert [one.bound for one in theirs] == [False, False]
    assert [(one.remote, one.local) for one in ours] == [(one.local, one.remote) for one in theirs]
    assert [one.local for one in ours] == [addresses.of(2, 0), addresses.of(2, 1)]
    hops = {(route.node, route.destination_address): len(route.hops) for route in routes(topology, [(0, 2)])}
    assert hops[2, addresses.of(0, 0)] == 2
    assert Counter(hops.values()) == {1: 2, 2: 1}


def test_each_address_of_a_server_is_reached_at_its_own_nic() -> None:
    """Also where all addresses of a host are to be reached, as with ``ping``."""
    topology = net("star(hosts=3,server_nics=2,routing=every_nic)")
    assert [len(topology.paths_to(0, 2, nic)) for nic in range(2)] == [1, 1]
    assert [topology.port_at_tail(topology.paths_to(0, 2, nic)[0].links[-1] ^ 1) for nic in range(2)] == [0, 1]
    assert len(topology.paths_to(2, 0, 0)) == 2
    routes(topology, [(0, 2), (1, 2)], every_address=True)
