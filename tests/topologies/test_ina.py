"""Switches that aggregate: which are chosen, and how traffic to and from them goes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import plan, routes
from testbed.topologies.build import build
from testbed.topologies.model import Topology


def make(expression: str) -> Topology:
    return build(expression, rate_bps=10**9)


def able(expression: str) -> list[str]:
    return [node.name for node in make(expression).nodes if node.ina]


@pytest.mark.parametrize(
    ("expression", "switches"),
    [
        ("star(hosts=4)", []),
        ("star(hosts=4,ina=all)", ["s0"]),
        ("star(hosts=4,ina=0)", []),
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=2)", ["leaf0", "leaf1"]),
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=50%)", ["leaf0"]),
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=[spine0,leaf1])", ["leaf1", "spine0"]),
        ("fat_tree(k=4,ina=9)", ["e0.0", "e0.1", "e1.0", "e1.1", "e2.0", "e2.1", "e3.0", "e3.1", "a0.1"]),
        ("bcube(n=3,k=2,ina=[s1.2])", ["s1.2"]),
    ],
)
def test_which_aggregate(expression: str, switches: list[str]) -> None:
    assert able(expression) == switches
    assert able(make(expression).expression) == switches


@pytest.mark.parametrize(
    ("which", "problem"),
    [
        ("3", "ina is 3, and there are 2 switches"),
        ("-1", "ina is -1, and there are 2 switches"),
        ("120%", "ina is 120%, and there are 2 switches"),
        ("x%", "ina is x%, and there are 2 switches"),
        ("0.5", "ina is 0.5, and there are 2 switches"),
        ("some", "ina is some, and there are 2 switches"),
        ("[]", r"ina is \[\], and there are 2 switches"),
        (
            "[leaf1]",
            r"ina names 'leaf1', which is no switch \(did you mean 'leaf0'\?\)\n  fix: name switches: leaf0, spine0",
        ),
    ],
)
def test_which_cannot(which: str, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        make(f"spine_leaf(racks=1,hosts_per_rack=2,spines=1,ina={which})")


def test_a_switch_that_aggregates_has_addresses() -> None:
    addresses = plan(make("star(hosts=3,ina=all)"))
    assert addresses.mode == {3: "route"}
    local, remote = addresses.flow(1, 3)
    assert local == addresses.of(1, 0)
    assert remote == addresses.of(3, 1)


NETWORKS = [
    "star(hosts=5)",
    "star(hosts=4,server_nics=2)",
    "bcube(n=3,k=2)",
    "fat_tree(k=4)",
    "fat_tree(k=4,routing=ecmp)",
    "spine_leaf(racks=3,hosts_per_rack=2,spines=2)",
    "spine_leaf(racks=2,hosts_per_rack=3,spines=3,routing=ecmp)",
]


@given(st.sampled_from(NETWORKS), st.data())
def test_ways_between_any_nodes_are_connected_and_can_be_installed(expression: str, data: st.DataObject) -> None:
    plain = make(expression)
    names = [plain.nodes[switch].name for switch in plain.switches]
    chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
    net = make(f"{expression[:-1]},ina=[{','.join(sorted(chosen))}])")
    ends = [i for i, node in enumerate(net.nodes) if i in net.hosts or node.ina]
    for src, dst in itertools.permutations(ends, 2):
        paths = net.paths(src, dst)
        assert sum(path.weight for path in paths) == pytest.approx(1)
        for path in paths:
            assert net.tail(path.links[0]) == src
            assert net.head(path.links[-1]) == dst
            assert all(net.head(a) == net.tail(b) for a, b in itertools.pairwise(path.links))
        if src in net.hosts and dst in net.hosts:
            assert paths == plain.paths(src, dst)
    routes(net, itertools.combinations(ends, 2))  # refuses next hops that depend on where traffic comes from
