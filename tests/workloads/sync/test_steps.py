"""Steps of a synchronisation, and when jitter lets each begin."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from testbed.topologies.build import build as build_topology
from testbed.workloads.sync.forest import ABSENT
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.steps import Jitter, are_even, idle_steps, steps


def count(scheme: str, topology: str = "star(hosts=8)") -> int:
    """Steps of the whole synchronisation: those in which any node sends something."""
    network = build_topology(topology, rate_bps=10**9)
    forest = build(scheme, network, [])
    found: set[int] = set()
    for node in range(len(forest.nodes)):
        up, down = steps(forest, node)
        sends_up = forest.reduce[:, node] >= 0
        sends_down = (forest.broadcast == node).any(axis=1)
        found |= {*up[sends_up].tolist(), *down[sends_down & (forest.broadcast[:, node] != ABSENT)].tolist()}
    assert found == set(range(len(found)))
    return len(found)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("ps", 2), ("ps(servers=1)", 2), ("ring", 14), ("halving_doubling", 6), ("double_binary_tree", 6)],
)
def test_how_many_steps_a_scheme_takes(scheme: str, expected: int) -> None:
    assert count(scheme) == expected


def test_a_switch_that_adds_takes_a_step_as_a_server_does() -> None:
    assert count("switchml", "star(hosts=8,ina=all)") == 2


def jitter(sigma_s: float = 0.01) -> Jitter:
    network = build_topology("star(hosts=4)", rate_bps=10**9)
    return Jitter(build("ring", network, []), 0, sigma_s, (1, 0))


@pytest.mark.parametrize(
    ("scheme", "topology", "idle"),
    [
        ("ring", "star(hosts=8)", 0),
        ("ps", "star(hosts=8)", 0),
        ("halving_doubling", "star(hosts=8)", 0),
        ("bml", "bcube(n=3,k=2)", 0),
        ("switchml", "star(hosts=8,ina=all)", 1),  # to the switch, from the switch
        ("tree", "star(hosts=8)", 5),  # three up, three down
        ("atp", "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)", 7),  # leaf, spine, leaf, server, and back
    ],
)
def test_steps_in_which_a_link_rests(scheme: str, topology: str, idle: int) -> None:
    assert idle_steps(build(scheme, build_topology(topology, rate_bps=10**9), [])) == idle


@pytest.mark.parametrize(
    ("scheme", "topology", "even"),
    [
        ("ring", "star(hosts=8)", True),
        ("multi_ring(strides=[1,3])", "star(hosts=8)", True),
        ("ps", "star(hosts=8)", True),
        ("halving_doubling", "star(hosts=8)", False),  # a half, a quarter, an eighth
        ("bml", "bcube(n=3,k=2)", False),
        ("tree", "star(hosts=8)", False),
    ],
)
def test_whether_nodes_send_the_same_in_every_step(scheme: str, topology: str, even: bool) -> None:
    assert are_even(build(scheme, build_topology(topology, rate_bps=10**9), [])) == even


def test_a_long_rings_steps_are_found_without_going_round_it_for_each_node() -> None:
    up, down = steps(build("ring", build_topology("star(hosts=200)", rate_bps=10**9), []), 0)
    assert sorted(up) == [*range(200)]
    assert sorted(down) == [*range(199, 399)]


def test_messages_of_one_step_wait_for_the_same_moment_and_the_next_step_for_longer() -> None:
    waits = jitter()
    up, _ = steps(build("ring", build_topology("star(hosts=4)", rate_bps=10**9), []), 0)
    order = np.argsort(up)
    due = [waits.due_s(int(c), is_sum=False) for c in order]
    assert due == sorted(due)
    assert [waits.due_s(int(c), is_sum=False) for c in order] == due


def test_the_delay_is_the_positive_half_of_a_normal_distribution() -> None:
    waits, late = jitter(1.0), []
    for _ in range(4000):
        waits._latest_s = 0.0
        waits.begin()
        late.append(waits.due_s(0, is_sum=False) - time.monotonic())
    positive = [one for one in late if one > 0.001]
    assert abs(len(positive) / len(late) - 0.5) < 0.05
    assert abs(math.sqrt(sum(one**2 for one in positive) / len(positive)) - 1.0) < 0.06
