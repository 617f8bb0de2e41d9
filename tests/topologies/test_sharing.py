"""Groups of links whose bytes are certain only together."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.sharing import groups

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
