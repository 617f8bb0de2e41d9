"""Quicktune: masters in proportion to rates, near the least time that any assignment has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.locality.masters import (
    Finetune,
    Hosts,
    Masters,
    Pairs,
    blame,
    can_give,
    moved,
    of_trees,
    quicktune,
    times_s,
)
from testbed.workloads.sync.forest import ROOT

Groups = tuple[tuple[int, ...], ...]


def shared(rates: Sequence[float]) -> Pairs:
    """Rates between hosts whose own are these, each divided equally among the others; the lower end's counts."""
    each = np.array(rates, dtype=np.float64) / (len(rates) - 1)
    found = np.minimum.outer(each, each)
    np.fill_diagonal(found, 0)
    return found


def least_times_s(masters: Masters, class_bytes: float, rate_bps: Pairs) -> Hosts:
    """For how long each host moves bytes in an iteration by the thesis's formula (s)."""
    size = np.empty(masters.hosts)
    for group in masters.groups:
        size[list(group)] = len(group)
    parts: Hosts = masters.locals * size + masters.globals * len(masters.groups)
    found: Hosts = 8 * class_bytes * parts / rate_bps.sum(axis=1)
    return found


def every_assignment(groups: Groups, classes: int) -> Iterator[Masters]:
    """All GMs of all classes, with all LMs of the other groups."""
    of_class = [
        (gm, locals_) for locals_ in product(*groups) for gm in locals_
    ]  # one LM a group, of which any is the GM
    for chosen in product(of_class, repeat=classes):
        gm = np.array([each[0] for each in chosen], dtype=np.int32)
        yield Masters(groups, gm, np.array([each[1] for each in chosen], dtype=np.int32).T)


def cases() -> st.SearchStrategy[tuple[Groups, int, list[float]]]:
    groups = st.sampled_from((((0, 1, 2, 3),), ((0, 1), (2, 3)), ((3, 0, 2), (1,)), ((0,), (1,), (2,), (3,))))
    return st.tuples(groups, st.integers(1, 12), st.lists(st.integers(1, 100).map(float), min_size=4, max_size=4))


def test_a_host_at_two_fifths_of_the_rate_has_fewer_masters() -> None:
    """The worked example: eight hosts in one group, host 0 at 2 of 5 Gbit/s, 64 classes."""
    tuned = quicktune([range(8)], 64, 1e9 * shared([2] + 7 * [5]))
    assert tuned.globals.tolist() == [4, 9, 9, 9, 9, 8, 8, 8]
    assert np.array_equal(tuned.lm, tuned.gm[None])


def test_equal_rates_are_equal_masters() -> None:
    tuned = quicktune([range(8)], 64, shared(8 * [5e9]))
    assert tuned.globals.tolist() == 8 * [8]


def test_a_group_has_global_masters_by_its_rates_to_other_groups() -> None:
    rate_bps = np.zeros((4, 4))
    rate_bps[0, 1] = rate_bps[1, 0] = 1e9  # within the first group, which does not count between groups
    rate_bps[0, 2] = 3e6
    rate_bps[2, 0], rate_bps[2, 3], rate_bps[3, 2] = 1e6, 1e6, 2e6
    rate_bps[1, 3] = 0.0
    tuned = quicktune([[0, 1], [2, 3]], 16, rate_bps)
    assert tuned.globals[:2].sum() == 12
    assert (tuned.globals[2], tuned.globals[3]) == (2, 2)
    assert tuned.locals.tolist() == [8, 8, 8, 8]


@given(cases())
def test_each_class_has_one_master_a_group_and_one_of_them_is_global(case: tuple[Groups, int, list[float]]) -> None:
    groups, classes, rates = case
    tuned = quicktune(groups, classes, shared(rates))
    for group, local in zip(groups, tuned.lm, strict=True):
        assert set(local.tolist()) <= set(group)
        own = np.isin(tuned.gm, group)
        assert np.array_equal(local[own], tuned.gm[own])
    assert (tuned.globals.sum(), tuned.locals.sum()) == (classes, classes * len(groups))
    roots = tuned.parents == ROOT
    assert roots.sum(axis=1).tolist() == classes * [1]


@given(cases())
def test_masters_are_read_from_their_trees(case: tuple[Groups, int, list[float]]) -> None:
    groups, classes, rates = case
    tuned = quicktune(groups, classes, shared(rates))
    again = of_trees(groups, tuned.parents)
    assert np.array_equal(again.parents, tuned.parents)
    assert np.array_equal(again.gm, tuned.gm)
    if min(map(len, groups)) > 1:  # a group of one host has no LM to tell from a member
        assert np.array_equal(again.lm, tuned.lm)


@pytest.mark.parametrize("rates", [(1, 1, 1), (2, 5, 5), (1, 2, 4), (1, 30, 30), (3, 4, 5)])
@pytest.mark.parametrize("classes", [3, 5])
def test_in_one_group_it_is_at_most_a_class_above_the_least_time(rates: tuple[int, ...], classes: int) -> None:
    groups, rate_bps = ((0, 1, 2),), shared([float(rate) for rate in rates])
    least_s = min(least_times_s(each, 1.0, rate_bps).max() for each in every_assignment(groups, classes))
    tuned_s = least_times_s(quicktune(groups, classes, rate_bps), 1.0, rate_bps)
    of_a_class_s = 8 * (len(groups[0]) + 1) / rate_bps.sum(axis=1)
    assert least_s <= tuned_s.max() <= least_s + of_a_class_s.max()


@pytest.mark.parametrize("rates", [(1, 1, 1, 1), (2, 5, 5, 5), (1, 2, 3, 4)])
def test_of_two_groups_no_assignment_is_twice_as_good(rates: tuple[int, ...]) -> None:
    groups, rate_bps = ((0, 1), (2, 3)), shared([float(rate) for rate in rates])
    least_s = min(least_times_s(each, 1.0, rate_bps).max() for each in every_assignment(groups, 4))
    tuned_s = least_times_s(quicktune(groups, 4, rate_bps), 1.0, rate_bps).max()
    assert least_s <= tuned_s < 2 * least_s


def test_the_time_of_a_host_is_the_thesis_formula() -> None:
    masters = Masters(((0, 1), (2,)), np.array([0, 2], np.int32), np.array([[0, 1], [2, 2]], np.int32))
    rate_bps = np.array([[0, 4, 4], [8, 0, 8], [1, 1, 0]], dtype=np.float64)
    # Host 0: LM of one class for two members, and GM for two groups; host 1: LM alone; host 2: LM of two, GM of one.
    assert least_times_s(masters, 10.0, rate_bps).tolist() == [8 * 10 * 4 / 8, 8 * 10 * 2 / 16, 8 * 10 * (2 + 2) / 2]


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
