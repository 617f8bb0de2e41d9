"""Finetune: blame as the thesis defines it, and masters that move from the most blamed host to the least."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.locality.finetune import Finetune, blame, can_give, moved, times_s
from testbed.workloads.locality.masters import Masters
from testbed.workloads.locality.quicktune import quicktune
from testbed.workloads.sync.forest import ROOT


def flat(counts: list[int]) -> Masters:
    """Masters of one group of hosts, each the GM of so many classes."""
    gm = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Masters((tuple(range(len(counts))),), gm, gm[None].copy())


def test_blame_is_of_load_and_of_time() -> None:
    """The worked example."""
    assert blame(np.array([10.0, 20, 30]), np.array([1.0, 1, 4]), 0.5, 0.5).tolist() == [0.25, 0.5, 1.5]


def test_equal_loads_are_no_blame() -> None:
    assert blame(np.full(3, 7.0), np.array([1.0, 1, 4]), 0.5, 0.5).tolist() == [0.25, 0.25, 1.0]


def test_the_time_of_a_host_is_its_longest_round_trip_and_its_bytes_over_its_rates() -> None:
    sent, rate = np.array([[0.0, 3], [5, 0]]), np.array([[0.0, 12], [10, 0]])
    rtt = np.array([[0.0, 0.25], [0.5, 0]])
    assert times_s(sent, rate, rtt).tolist() == [2.25, 4.5]


def test_about_equal_blame_moves_nothing() -> None:
    masters, steps = flat([2, 2, 2]), Finetune()
    assert steps.step(masters, np.array([1.0, 1.05, 1.02])) is None
    assert steps.step(masters, np.array([1.0, 1.06, 1.02])) is not None


def test_the_same_host_again_gives_twice_as_many_up_to_eight() -> None:
    masters, steps, blamed = flat([40, 0, 0]), Finetune(), np.array([3.0, 2, 1])
    counts = []
    for _ in range(5):
        masters = steps.step(masters, blamed) or masters
        counts.append(int(masters.globals[0]))
    assert counts == [39, 37, 33, 25, 17]
    assert masters.globals.tolist() == [17, 0, 23]


def test_another_host_begins_with_one_again() -> None:
    masters, steps = flat([10, 10, 0]), Finetune()
    for blamed in ([3, 2, 1], [3, 2, 1], [2, 3, 1]):
        masters = steps.step(masters, np.array(blamed, dtype=np.float64)) or masters
    assert masters.globals.tolist() == [7, 9, 4]


def test_a_host_without_masters_gives_none_and_the_next_one_does() -> None:
    masters = flat([0, 3, 3])
    after = Finetune().step(masters, np.array([9.0, 2, 1]))
    assert after is not None
    assert after.globals.tolist() == [0, 2, 4]


def test_a_global_master_goes_to_another_group_and_its_old_one_stays_local() -> None:
    masters = Masters(((0, 1), (2, 3)), np.array([0], np.int32), np.array([[0], [2]], np.int32))
    after = moved(masters, 0, [3, 2, 1, 0])
    assert (after.gm.tolist(), after.lm.tolist()) == ([3], [[0], [3]])


def test_a_global_master_within_its_group_takes_the_local_one_along() -> None:
    masters = Masters(((0, 1), (2, 3)), np.array([0], np.int32), np.array([[0], [2]], np.int32))
    after = moved(masters, 0, [1, 2, 3, 0])
    assert (after.gm.tolist(), after.lm.tolist()) == ([1], [[1], [2]])


def test_a_local_master_moves_within_its_group() -> None:
    masters = Masters(((0, 1), (2, 3)), np.array([0], np.int32), np.array([[0], [2]], np.int32))
    after = moved(masters, 2, [1, 0, 3, 2])
    assert (after.gm.tolist(), after.lm.tolist()) == ([0], [[0], [3]])


def test_the_only_host_of_a_group_keeps_its_local_master() -> None:
    masters = Masters(((0, 1), (2,)), np.array([0], np.int32), np.array([[0], [2]], np.int32))
    assert not can_give(masters, 2)
    assert np.array_equal(moved(masters, 2, [1, 0, 2]).parents, masters.parents)


@given(
    st.sampled_from((((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0, 3, 2), (1,)), ((0,), (1,), (2,), (3,)))),
    st.integers(1, 20),
    st.lists(st.lists(st.floats(0.1, 10), min_size=4, max_size=4), min_size=1, max_size=8),
)
def test_after_any_steps_each_class_has_one_master_a_group(
    groups: tuple[tuple[int, ...], ...], classes: int, blamed: list[list[float]]
) -> None:
    masters, steps = quicktune(groups, classes, np.ones((4, 4)) - np.eye(4)), Finetune()
    for each in blamed:
        before, masters = masters, steps.step(masters, np.array(each)) or masters
        assert masters.globals.sum() == classes
        assert masters.locals.sum() == classes * len(groups)
        changed = (masters.parents != before.parents).any(axis=1).sum()
        assert changed <= 8
        for group, local in zip(groups, masters.lm, strict=True):
            assert set(local.tolist()) <= set(group)
            own = np.isin(masters.gm, group)
            assert np.array_equal(local[own], masters.gm[own])
        assert (masters.parents == ROOT).sum(axis=1).tolist() == classes * [1]


def test_sent_bytes_are_those_of_the_trees() -> None:
    masters = Masters(((0, 1, 2), (3, 4)), np.array([0], np.int32), np.array([[0], [3]], np.int32))
    # The GM sends the sum to two members and an LM; members one gradient each; the LM one up, and one down.
    assert masters.sent_bytes(10.0).tolist() == pytest.approx([30, 10, 10, 20, 10])
