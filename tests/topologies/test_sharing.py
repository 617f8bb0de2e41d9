"""Groups of links whose bytes are certain only together."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.sharing import fair_bps, groups

NETWORKS = ("star(hosts=4)", "bcube(n=3,k=2)", "fat_tree(k=4,routing=ecmp)", "dragonfly(a=2,p=2,h=1,g=3,routing=ecmp)")


@pytest.mark.parametrize("expression", ["star(hosts=4)", "bcube(n=3,k=2)", "fat_tree(k=4,routing=by_destination)"])
def test_where_each_pair_has_one_path_every_link_is_alone(expression: str) -> None:
    topology = build(expression, rate_bps=10**9)
    assert groups(topology, permutations(topology.hosts, 2)) == [(link,) for link in range(2 * len(topology.links))]


def test_the_uplinks_of_a_leaf_share_and_hosts_links_do_not() -> None:
    topology = build("spine_leaf(racks=2,hosts_per_rack=2,spines=2,routing=ecmp)", rate_bps=10**9)
    shared = [
        [(topology.nodes[topology.tail(link)].name, topology.nodes[topology.head(link)].name) for link in links]
        for links in groups(topology, permutations(topology.hosts, 2))
        if len(links) > 1
    ]
    assert shared == [
        [("leaf0", "spine0"), ("leaf0", "spine1")],
        [("spine0", "leaf0"), ("spine1", "leaf0")],
        [("leaf1", "spine0"), ("leaf1", "spine1")],
        [("spine0", "leaf1"), ("spine1", "leaf1")],
    ]


@given(st.sampled_from(NETWORKS), st.data())
def test_whichever_path_each_flow_takes_a_group_carries_the_same(expression: str, data: st.DataObject) -> None:
    topology = build(expression, rate_bps=10**9)
    everyone = list(permutations(topology.hosts, 2))
    pairs = data.draw(st.lists(st.sampled_from(everyone), min_size=1, max_size=8))
    expected, taken = np.zeros(2 * len(topology.links)), np.zeros(2 * len(topology.links))
    for pair in pairs:
        paths = topology.paths(*pair)
        for path in paths:
            expected[list(path.links)] += path.weight
        taken[list(data.draw(st.sampled_from(paths)).links)] += 1
    found = groups(topology, pairs)
    assert sorted(link for links in found for link in links) == list(range(2 * len(topology.links)))
    for links in found:
        assert taken[list(links)].sum() == pytest.approx(expected[list(links)].sum())


@given(
    st.lists(st.dictionaries(st.integers(0, 5), st.sampled_from([0.25, 0.5, 1.0]), min_size=1), min_size=1, max_size=6)
)
def test_rates_are_max_min_fair(loads: list[dict[int, float]]) -> None:
    """No link is overfull, and each flow passes a full link on which nobody has more."""
    topology = build("star(hosts=3)", rate_bps=1000)
    rates = fair_bps(loads, topology)
    used = {link: sum(rate * one.get(link, 0) for rate, one in zip(rates, loads, strict=True)) for link in range(6)}
    assert all(load <= 1000.001 for load in used.values())
    for rate, one in zip(rates, loads, strict=True):
        full = [link for link in one if used[link] > 999.999]
        assert any(rate >= max(r for r, o in zip(rates, loads, strict=True) if link in o) - 1e-6 for link in full)
