"""Steps of workers in simulated time: what they wait for, and in which order they are taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.player import Player
from testbed.workloads.play.steps import BACKWARD, FORWARD, Steps
from testbed.workloads.play.synchronisation import only_steps

MB_S = 0.008
"""Time of a megabyte at 1 Gbit/s."""


def steps(ranks: list[int], shares: list[float], messages: list[tuple[int, int, float]], then: list[int]) -> Steps:
    giver, taker, size = (np.array(each) for each in zip(*messages, strict=True))
    phase = np.array([FORWARD if at % 2 == 0 else BACKWARD for at in range(len(ranks))], np.int32)
    numbers = (np.array(each, np.int32) for each in (then, giver, taker))
    return Steps(np.array(ranks, np.int32), phase, np.array(shares), *numbers, size.astype(float))


def played(topology: Topology, each: Steps, iterations: int = 1) -> tuple[list[tuple[float, int]], Player]:
    work = only_steps(len(topology.nodes), (0, 1), each)
    player = Player(Arena(topology), work)
    times_s = each.times_s(1.0, np.ones((2, iterations)), np.zeros((2, iterations)))
    return [(round(at_s, 9), node) for at_s, node in player.told(times_s)], player


def test_a_step_waits_for_its_messages_and_a_server_takes_one_at_a_time(topology: Callable[..., Topology]) -> None:
    """Forward 0.1 s on the first, 1 MB, forward and backward 0.2 and 0.4 s on the second, 1 MB back, backward 0.1 s."""
    star = topology("star(hosts=2)", rate_bps=10**9)
    each = steps([0, 0, 1, 1], [0.1, 0.1, 0.2, 0.4], [(0, 2, 1e6), (3, 1, 1e6)], [-1, -1, 3, -1])
    told, player = played(star, each)
    assert told == [(round(0.7 + MB_S, 9), 1), (round(0.8 + 2 * MB_S, 9), 0)]
    ready, forward, backward, _ = player.notes[0].T
    assert ready == pytest.approx([0.8 + 2 * MB_S, 0.7 + MB_S])
    assert forward == pytest.approx([0, 0.1 + MB_S])
    assert backward == pytest.approx([0.6 + 2 * MB_S, 0])
    assert player.sent_bytes() == pytest.approx([1e6, 1e6])


def test_a_message_that_comes_before_its_iteration_waits_for_it(topology: Callable[..., Topology]) -> None:
    """The first begins its second iteration at 0.1 s, and its message comes while the second computes for 1 s."""
    star = topology("star(hosts=2)", rate_bps=10**9)
    each = steps([0, 1, 1], [0.1, 0.0, 1.0], [(0, 1, 1e6)], [-1, 2, -1])
    told, player = played(star, each, iterations=2)
    first_s = 0.1 + MB_S + 1.0
    assert [at_s for at_s, node in told if node == 0] == [0.1, 0.2]
    assert [at_s for at_s, node in told if node == 1] == pytest.approx([first_s, first_s + 1.0])
    assert player.notes[1, 1, 1:] == pytest.approx([0, 0, 0]), "the message was there"


def test_the_soonest_end_is_that_of_a_step_that_needs_nothing() -> None:
    each = steps([0, 0, 1, 1], [0.3, 0.1, 0.2, 0.4], [(0, 2, 1e6), (3, 1, 1e6)], [-1, -1, 3, -1])
    times_s = each.times_s(1.0, np.ones((3, 1)), np.zeros((3, 1)))[0]
    assert each.soonest_s(times_s).tolist() == [0.3, np.inf, 0.0]
