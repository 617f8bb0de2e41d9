"""Schemes by racks, groups and layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import ROOT, Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
TWO_RACKS = "spine_leaf(racks=2,hosts_per_rack=3,spines=1)"


def masters(forest: Forest) -> list[int]:
    """The root of each class."""
    return [int(root) for root in np.argmax(forest.reduce == ROOT, axis=1)]


def test_servers_in_racks_and_across(topology: Build) -> None:
    forest = build("hierarchical_ps", topology(TWO_RACKS), [])
    assert forest.reduce[:, :6].tolist() == [[-1, 0, 0, 0, 3, 3], [3, 0, 0, -1, 3, 3]]
    assert forest.broadcast.tolist() == forest.reduce.tolist()


def test_a_ring_across_racks(topology: Build) -> None:
    forest = build("hierarchical_ps(across=ring)", topology("spine_leaf(racks=3,hosts_per_rack=2,spines=1)"), [])
    assert forest.reduce[1, :6].tolist() == [2, 0, -1, 2, 0, 4]
    assert forest.broadcast[1, :6].tolist() == [4, 0, -1, 2, 2, 4]


def test_a_server_of_its_own_in_each_rack(topology: Build) -> None:
    net = topology(TWO_RACKS)
    forest = build("hierarchical_ps(colocated=false)", net, [])
    verify(forest, net)
    assert forest.workers == (0, 1, 3, 4)
    assert forest.reduce[0, :6].tolist() == [2, 2, -1, 5, 5, 2]


def test_hierarchy_cuts_what_crosses_racks_to_one_nth(topology: Build) -> None:
    """PHub thesis section 2.3: 1/N of the cross-rack traffic of sharded PS with N-worker racks."""
    net = topology("spine_leaf(racks=4,hosts_per_rack=8,spines=1)")
    flat = cost(build("ps", net, []), net, 1e6)
    for across in ("ps", "ring"):
        cut = cost(build(f"hierarchical_ps(across={across})", net, []), net, 1e6)
        assert cut.cross_rack_bytes == pytest.approx(flat.cross_rack_bytes / 8)


def test_two_level_by_racks(topology: Build) -> None:
    """Class 1 has its global master at host 1, and the local master 4 in the other rack, its second host."""
    forest = build("two_level", topology(TWO_RACKS), [])
    assert masters(forest) == list(range(6))
    assert forest.reduce[1, :6].tolist() == [1, -1, 1, 4, 1, 4]
    assert forest.reduce[3, :6].tolist() == [3, 0, 0, -1, 3, 3]


@given(st.lists(st.integers(0, 4), min_size=2, max_size=20))
def test_masters_are_balanced_in_any_groups(of: list[int]) -> None:
    """Each host is GM once, and LM of other groups' classes as often as its group's others, within one."""
    net = build_topology(f"star(hosts={len(of)})", rate_bps=10**9)
    groups = [[host for host, group in enumerate(of) if group == g] for g in sorted(set(of))]
    text = ",".join(f"[{','.join(map(str, group))}]" for group in groups)
    forest = build(f"two_level(groups=[{text}])", net, [])
    verify(forest, net)
    assert masters(forest) == list(range(len(of)))
    assert cost(forest, net, 1.0).rounds <= 4
    adds = np.array([(forest.reduce == host).any(axis=1) for host in range(len(of))])
    for group in groups:
        elsewhere = np.setdiff1d(range(len(of)), group)
        turns = adds[np.ix_(group, elsewhere)].sum(axis=1)
        assert turns.max() - turns.min() <= 1


def test_h_ar(topology: Build) -> None:
    """Class (rack 1, member 0): along each rack's ring, the second one's against its order, to its first host, then
    over racks; back the same ways."""
    forest = build("h_ar", topology(TWO_RACKS), [])
    assert masters(forest) == [0, 1, 2, 3, 4, 5]
    assert forest.reduce[3, :6].tolist() == [3, 2, 0, -1, 3, 4]
    assert forest.broadcast[3, :6].tolist() == [3, 2, 0, -1, 3, 4]


def test_h_ar_goes_once_more_around_racks_and_back_along_the_ring_of_each(topology: Build) -> None:
    """Class (rack 1, member 0) of three racks of two: racks 2, 0, 1, then 1, 2, 0."""
    forest = build("h_ar", topology("spine_leaf(racks=3,hosts_per_rack=2,spines=1)"), [])
    assert forest.reduce[2, :6].tolist() == [2, 0, -1, 2, 0, 4]
    assert forest.broadcast[2, :6].tolist() == [4, 0, -1, 2, 2, 4]


def test_h_ar_with_unequal_racks() -> None:
    net = build_topology(TWO_RACKS, rate_bps=10**9)
    nodes = list(net.nodes)
    nodes[2] = replace(nodes[2], rack=1)
    uneven = replace(net, nodes=tuple(nodes))
    forest = build("h_ar", uneven, [])
    verify(forest, uneven)
    assert forest.classes == 8
    assert cost(forest, uneven, 1.0).rounds == 2 * 3 + 2 * 1


def test_layers_of_a_fat_tree(topology: Build) -> None:
    """fat_tree(4), class 0: to the first host of each edge switch, of each pod, of all."""
    net = topology("fat_tree(k=4)")
    forest = build("hierarchical", net, [])
    verify(forest, net)
    assert forest.reduce[0, :16].tolist() == [-1, 0, 0, 2, 0, 4, 4, 6, 0, 8, 8, 10, 0, 12, 12, 14]
    assert cost(forest, net, 1.0).rounds == 2 * 3


@pytest.mark.parametrize(
    ("form", "network", "text"),
    [
        (
            "hierarchical",
            "star(hosts=4)",
            "hierarchical goes by the layers of a fat-tree, and star(hosts=4) is not one\n"
            "  fix: use it on fat_tree(k=...), bml on a BCube, or two_level by racks",
        ),
        (
            "hierarchical",
            "fat_tree(k=4,hosts=9)",
            "hierarchical goes by all places on edge switches, and fat_tree(k=4,hosts=9) has only the first hosts\n"
            "  fix: leave out hosts, or take two_level, which goes by racks",
        ),
        (
            "hierarchical_ps(colocated=false)",
            "spine_leaf(racks=2,hosts_per_rack=1,spines=1)",
            "hierarchical_ps(colocated=false) needs a server and a worker in each rack, and one of "
            "spine_leaf(racks=2,hosts_per_rack=1,spines=1) has a single host\n"
            "  fix: take two hosts or more a rack, or colocated=true",
        ),
        (
            "two_level(groups=[[0,1],[1,3,7]])",
            "star(hosts=4)",
            "two_level: its groups must hold each host once, and they lack 2 and hold 1, 7 wrongly\n"
            "  fix: name every host of 0 to 3 in one group",
        ),
        (
            "two_level(groups=[[0,1,2,3],[]])",
            "star(hosts=4)",
            "two_level: its groups must hold each host once, and one is empty\n"
            "  fix: name every host of 0 to 3 in one group",
        ),
        (
            "two_level(groups=[0,1])",
            "star(hosts=2)",
            "two_level: groups is [0,1]\n"
            "  fix: give groups one of probed, random, truth, or a list of lists of hosts, such as [[0,1],[2,3]] or "
            "[[h0,h1],[h2,h3]]",
        ),
    ],
)
def test_texts(topology: Build, form: str, network: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(form, topology(network), [])
    assert str(caught.value) == text


@pytest.mark.parametrize("form", ["two_level", "h_ar", "hierarchical_ps"])
def test_a_network_without_racks(topology: Build, form: str) -> None:
    net = topology("star(hosts=2)")
    nowhere = replace(net, nodes=tuple(replace(node, rack=None) for node in net.nodes))
    with pytest.raises(SchemeError) as caught:
        build(form, nowhere, [])
    assert str(caught.value) == (
        f"{form} sums by racks, and h0 of star(hosts=2) is in no rack\n"
        "  fix: use it on spine_leaf, fat_tree or bcube, or take ps or ring here"
    )
