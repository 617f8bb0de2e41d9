"""The burst uses every NIC once each way."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.topologies.build import build

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
