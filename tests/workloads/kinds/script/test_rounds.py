"""Iterations are found in the sums that a script asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.kinds.script.rounds import period, rounds
from tests.workloads.kinds.script.made import call, ranks, sums


def sizes(found: list[list[tuple[object, ...]]]) -> list[list[int]]:
    """By iteration of the first rank, the sizes of its sums."""
    return [[one.nbytes for one in each] for each in found[0]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([7000] * 3, [[7000]] * 3),
        ([400, 900] * 3, [[400, 900]] * 3),
        ([900, 400, 400, 900, 400, 900], [[900, 400], [400, 900], [400, 900]]),  # DDP builds its buckets anew
        ([1300, 400, 900, 400, 900], [[1300], [400, 900], [400, 900]]),
        ([500, 400, 900, 400, 900], [[400, 900], [400, 900]]),  # something else came before
        ([400, 900, 8, 400, 900, 8], [[400, 900]] * 2),  # a loss that is added up over ranks
        ([8, 8, 8], [[8]] * 3),
        ([400, 900, 400, 900, 5000], [[400, 900]] * 2),  # a test at the end
        ([400], []),
        ([400, 900], []),
        ([], []),
        ([100, 200, 300, 400, 500, 600], []),
    ],
)
def test_repetitions_of_sums_are_iterations(asked: list[int], found: list[list[int]]) -> None:
    assert sizes(rounds(ranks(sums(asked)))) == found


def test_marks_end_iterations_whatever_the_sums_are() -> None:
    told = ranks(sums([100, 200, 300, 400, 500]), marks_s=(2.5, 2.8, 5.5))
    assert sizes(rounds(told)) == [[100, 200], [300, 400, 500]]  # nothing was summed up to the second mark


def test_sums_after_the_last_mark_are_of_no_iteration() -> None:
    assert sizes(rounds(ranks(sums([100, 100, 100]), marks_s=(1.5, 2.5)))) == [[100], [100]]


def test_sums_of_some_ranks_are_no_gradients() -> None:
    among_some = [replace(one, ranks=1, group=1) for one in sums([50, 50])]
    assert sizes(rounds(ranks([*sums([700, 700]), *among_some]))) == [[700], [700]]


def test_sums_that_gloo_makes_beside_the_scheme_are_no_gradients() -> None:
    """As those with which every so-many-th sum is compared, at the end."""
    asked = [*sums([700] * 3), call(3, 700, 9.0, by="gloo")]
    assert sizes(rounds(ranks(asked))) == [[700]] * 3
    assert sizes(rounds(ranks(asked), by_gloo=True)) == [[700]] * 4


def test_only_iterations_that_all_ranks_have_done_count() -> None:
    first, second = ranks(sums([700] * 5))
    assert [len(one) for one in rounds([first, replace(second, calls=second.calls[:3])])] == [3, 3]


def test_other_collectives_are_no_sums() -> None:
    calls = [call(i, 700, 1.0 + i, op=op) for i, op in enumerate(["all_gather", "reduce_scatter"] * 3)]
    assert sizes(rounds(ranks(calls))) == [[700]] * 3


@given(st.lists(st.integers(0, 2), max_size=14))
def test_the_period_is_the_shortest_of_the_longest_run_at_the_end(values: list[int]) -> None:
    found = period(values)
    candidates = [
        (length, p)
        for length in range(1, len(values) + 1)
        if 2 * length >= len(values)
        for p in range(1, length // 2 + 1)
        if all(values[-i] == values[-i - p] for i in range(1, length - p + 1))
    ]
    longest = max((length for length, _ in candidates), default=0)
    assert found == min((p for length, p in candidates if length == longest), default=0)
