"""What goes on when nodes die: a right forest of the living, which treats each rack as Rina section IV-C2 says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.schemes import build, repair, repairable
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
EIGHT = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=[leaf0,leaf1])"
LEAF0, LEAF1 = 8, 9


def without(topology: Topology, *dead: int) -> Forest:
    forest = repair("rina", topology, [100], dead)
    verify(forest, topology)
    return forest


def senders_to(forest: Forest, node: int) -> set[int]:
    """Whose partial sums the node adds."""
    return set(np.flatnonzero((forest.reduce == node).any(axis=0)).tolist())


@st.composite
def failures(draw: st.DrawFn) -> tuple[Topology, set[int]]:
    """A network in which some switches add, and some of its nodes, not all hosts."""
    racks, hosts = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    able = draw(st.lists(st.sampled_from([f"leaf{i}" for i in range(racks)]), unique=True))
    ina = f",ina=[{','.join(able)}]" if able else ""
    topology = build_topology(f"spine_leaf(racks={racks},hosts_per_rack={hosts},spines=1{ina})", rate_bps=10**9)
    living = draw(st.integers(0, topology.host_count - 1))
    dead = draw(st.sets(st.integers(0, len(topology.nodes) - 1))) - {living}
    return topology, dead


@settings(deadline=None)
@given(failures(), st.integers(8, 64))
def test_the_living_get_the_sum_of_the_living(case: tuple[Topology, set[int]], slots: int) -> None:
    topology, dead = case
    forest = repair(f"rina(slots={slots * topology.host_count})", topology, [100], dead)
    verify(forest, topology)
    assert set(forest.workers) == set(topology.hosts) - dead
    for trees in (forest.reduce, forest.broadcast):
        assert (trees[:, sorted(dead)] == ABSENT).all()
    for rack in {node.rack for node in topology.nodes[: topology.host_count]}:
        members = [host for host in topology.hosts if topology.nodes[host].rack == rack]
        living = [host for host in members if host not in dead]
        tor = next(i for i in topology.switches if topology.nodes[i].rack == rack)
        abstract = bool((forest.reduce[:, tor] != ABSENT).any())
        assert abstract == (topology.nodes[tor].ina and len(living) > 1 and not dead & {members[0], tor})


@given(failures())
def test_the_order_of_deaths_does_not_matter_and_none_changes_nothing(case: tuple[Topology, set[int]]) -> None:
    topology, _ = case
    whole, built = repair("rina", topology, [100], ()), build("rina", topology, [100])
    assert np.array_equal(whole.reduce, built.reduce)
    assert np.array_equal(whole.broadcast, built.broadcast)
    assert (whole.workers, whole.fixed, whole.window) == (built.workers, built.fixed, built.window)


def test_a_rack_whose_agent_died_goes_on_as_plain_rar(topology: Build) -> None:
    net = topology(EIGHT)
    forest = without(net, 0)
    assert forest.classes == 4  # h1, h2, h3 alone, and the other rack
    assert [senders_to(forest, host) for host in (1, 2, 3)] == [{LEAF1}, {1}, {2}]
    assert senders_to(forest, LEAF1) == {4, 5, 6, 7}
    assert 3 in senders_to(forest, 4)  # the other rack's agent
    assert forest.fixed is not None


def test_a_rack_leaves_a_dead_worker_out(topology: Build) -> None:
    forest = without(topology(EIGHT), 2)
    assert forest.classes == 2
    assert senders_to(forest, LEAF0) == {0, 1, 3}


def test_a_rack_whose_aggregator_died_goes_on_as_plain_rar(topology: Build) -> None:
    forest = without(topology(EIGHT), LEAF0)
    assert forest.classes == 5
    assert [senders_to(forest, host) for host in range(4)] == [{LEAF1}, {0}, {1}, {2}]


def test_an_autonomous_worker_is_bypassed(topology: Build) -> None:
    forest = without(topology("spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=[leaf0])"), 5)
    assert senders_to(forest, 6) == {4}
    assert forest.classes == 4


def test_where_no_rack_aggregates_any_more_it_is_a_ring_of_floats(topology: Build) -> None:
    forest = without(topology(EIGHT), 0, 4)
    assert forest.fixed is None
    assert forest.classes == len(forest.workers) == 6


def test_the_last_of_all_has_nobody_to_talk_to(topology: Build) -> None:
    forest = without(topology("spine_leaf(racks=1,hosts_per_rack=2,spines=1,ina=all)"), 1)
    assert pairs(forest) == []


def test_nobody_is_left(topology: Build) -> None:
    with pytest.raises(SchemeError, match="scheme rina: no worker is left"):
        repair("rina", topology("spine_leaf(racks=1,hosts_per_rack=2,spines=1)"), [100], (0, 1))


@pytest.mark.parametrize(
    ("scheme", "does"), [("rina", True), ("rina(slots=128)", True), ("ring", False), ("ps", False), ("./a.py:b", False)]
)
def test_only_rina_is_repairable(scheme: str, does: bool) -> None:
    assert repairable(scheme) == does
