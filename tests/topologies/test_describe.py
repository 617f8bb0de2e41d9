"""Counts, and bisection against the worst of all halves."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product

import pytest

from testbed.topologies.build import build
from testbed.topologies.describe import bisection_bps, describe
from testbed.topologies.model import Topology


def test_description() -> None:
    described = describe(build("bcube(n=4,k=2)", rate_bps=1000))
    assert json.loads(json.dumps(described)) == {
        "expression": "bcube(n=4,k=2)",
        "family": "bcube",
        "hosts": 16,
        "switches": 8,
        "switches_by_level": {"1": 4, "2": 4},
        "switch_ports": 32,
        "ports_per_switch": [4],
        "aggregating": [],
        "links": 32,
        "nics_per_host": [2],
        "racks": 4,
        "link_rates_bps": [1000],
        "bisection_bps": 8000.0,
        "fat_tree_switches": 20.0,
    }


def worst_cut(topology: Topology) -> int:
    """The least capacity between two halves of the hosts, over every choice of halves and of sides for the switches."""
    hosts = topology.host_count
    worst = sum(link.rate_bps for link in topology.links)
    for half in combinations(range(1, hosts), hosts // 2):
        chosen = set(half)
        for sides in product((False, True), repeat=len(topology.switches)):
            far = [node in chosen for node in topology.hosts] + list(sides)
            worst = min(worst, sum(link.rate_bps for link in topology.links if far[link.a] != far[link.b]))
    return worst


@pytest.mark.parametrize(
    "expression",
    [
        "star(hosts=2)",
        "star(hosts=6)",
        "bcube(n=2,k=1)",
        "bcube(n=2,k=2)",
        "bcube(n=4,k=1)",
        "fat_tree(k=2)",
        "spine_leaf(racks=2,hosts_per_rack=2,spines=2)",
        "spine_leaf(racks=2,hosts_per_rack=3,spines=2,oversubscription=2)",
        "spine_leaf(racks=2,hosts_per_rack=2,spines=2,oversubscription=0.5)",
        "spine_leaf(racks=4,hosts_per_rack=2,spines=1,oversubscription=2)",
        "spine_leaf(racks=3,hosts_per_rack=2,spines=2,oversubscription=3)",
        "cloud(rows=1,racks=4,hosts_per_rack=2,oversubscription=2)",
        "cloud(rows=2,racks=1,hosts_per_rack=3,oversubscription=0.5)",
        "cloud(rows=2,racks=2,hosts_per_rack=2)",
        "cloud(sizes=[3,2,1,2])",
        "bcube(n=3,k=2)",
        "bcube(n=3,k=1)",
        "dragonfly(a=2,g=3,h=1,p=1)",
    ],
)
def test_bisection_is_the_worst_cut(expression: str) -> None:
    topology = build(expression, rate_bps=600)
    assert bisection_bps(topology) == worst_cut(topology)


def test_bisection_of_a_fat_tree_is_full() -> None:
    assert bisection_bps(build("fat_tree(k=4)", rate_bps=1000)) == 8 * 1000


@pytest.mark.parametrize(("rings", "links"), [("[1]", 2), ("[1,3]", 8)])
def test_bisection_of_circuits(rings: str, links: int) -> None:
    """One ring of eight is cut twice. With that of stride 3, even and odd servers are the parts of K(4,4), and halves
    with two of each have 8 circuits between them."""
    net = build(f"patch_panel(servers=8,degree=4,rings={rings})", rate_bps=1000)
    assert bisection_bps(net) == links * 1000


def test_bisection_of_many_hosts_without_a_closed_form() -> None:
    assert bisection_bps(build("dragonfly(a=4,g=9,h=2)", rate_bps=1000)) is None


def test_bisection_of_rates_that_have_nothing_in_common() -> None:
    net = build("spine_leaf(racks=3,hosts_per_rack=3,spines=2)", rate_bps=999_999_999)
    assert bisection_bps(net) is None


def test_bisection_of_links_that_differ() -> None:
    """Host 0 can send a tenth, whichever half it is in."""
    net = build("star(hosts=4)", rate_bps=1000)
    slow = replace(net, links=(replace(net.links[0], rate_bps=100), *net.links[1:]))
    assert bisection_bps(slow) == worst_cut(slow) == 1100
    assert describe(slow)["link_rates_bps"] == [100, 1000]
