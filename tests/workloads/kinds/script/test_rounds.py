"""Iterations are found in the sums that a script asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis import metrics
from testbed.topologies.build import build
from testbed.workloads.kinds.ranks import Account, Call, Logged, RankRows
from testbed.workloads.kinds.script.account import account
from testbed.workloads.kinds.script.measures import ScriptMeasures
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.kinds.script.rounds import connect_s, period, rounds
from testbed.workloads.sync.schemes import build as build_forest
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


TOPOLOGY = build("star(hosts=2)", rate_bps=8_000_000, delay_s=0.0)
PLAN = scripted(build_forest("ring", TOPOLOGY, [1]))
MET_S, PERIOD_S, SYNC_S = 0.5, 1.0, 0.25
FIRST_S = 10.0
"""When the first sum is asked for: set-up took most of the time before."""


def calls(first_s: float = FIRST_S, count: int = 5, **first: object) -> list[Call]:
    """One sum in each iteration. A rank computes for PERIOD_S - SYNC_S, and then the sum takes SYNC_S."""
    each = [call(i, 700, FIRST_S + i * PERIOD_S, SYNC_S) for i in range(count)]
    late = replace(each[0], asked_s=first_s, waited_s=each[0].done_s - first_s)
    return [replace(late, **first), *each[1:]]  # type: ignore[arg-type]


def rank(number: int, own: Sequence[Call], **more: object) -> RankRows:
    return RankRows(number, number, MET_S, own, **more)  # type: ignore[arg-type]


def found(*each: Sequence[Call], **more: object) -> Account:
    return account(PLAN, TOPOLOGY, [rank(number, own, **more) for number, own in enumerate(each)], 1)


def jct_s(of: Account) -> float:
    assert of.samples is not None
    return metrics.jct_s(of.samples)


def test_jct_is_that_of_as_many_iterations_whatever_the_setup_took() -> None:
    assert jct_s(found(calls(), calls())) == pytest.approx(5 * PERIOD_S)


def test_samples_per_second_follow_jct() -> None:
    told = [Logged(FIRST_S + SYNC_S + 0.1 + i, {"samples": 8.0}) for i in range(5)]
    of = found(calls(), calls(), logged=told)
    assert of.metrics["throughput_sps"] == pytest.approx(2 * 5 * 8 / (5 * PERIOD_S))


def test_the_first_iteration_of_ddp_has_one_bucket() -> None:
    """The first bucket of later iterations is asked for in the midst of the backward pass, and the only one of the
    first iteration at its end."""
    whole = [call(0, 1300, FIRST_S, SYNC_S, waited_s=None)]
    later = [
        call(2 * i - 1 + last, 400 if last else 900, FIRST_S + i * PERIOD_S - 0.3 * (not last), SYNC_S, waited_s=None)
        for i in range(1, 5)
        for last in (False, True)
    ]
    assert jct_s(found([*whole, *later], [*whole, *later])) == pytest.approx(5 * PERIOD_S)


def test_a_rank_that_waits_for_the_setup_of_another_has_no_longer_iteration() -> None:
    early, late = calls(first_s=4.0), calls()
    of = found(early, late)
    assert jct_s(of) == pytest.approx(5 * PERIOD_S)
    assert of.samples is not None
    first = of.samples[of.samples["iteration"] == 0]
    assert first["start_s"].tolist() == pytest.approx([FIRST_S - PERIOD_S + SYNC_S] * 2)
    assert first["ready_s"].tolist() == [4.0, FIRST_S]
    assert first["exposed_s"].tolist() == pytest.approx([PERIOD_S, SYNC_S])
    waits_s = metrics.waits_s(of.samples)
    assert waits_s.iloc[0].tolist() == pytest.approx([PERIOD_S - SYNC_S, 0.0])
    assert metrics.compute_s(of.samples) == pytest.approx(5 * (PERIOD_S - SYNC_S))


def test_what_the_first_sum_needs_to_begin_is_setup() -> None:
    """Its connections and plans take 0.4 s."""
    slow = calls(first_s=FIRST_S - 0.4, came_s=FIRST_S)
    of = found(slow, slow)
    assert jct_s(of) == pytest.approx(5 * PERIOD_S)
    assert of.metrics["connect_s"] == pytest.approx(0.4)


def test_gst_has_what_it_had() -> None:
    """A sum that takes longer to begin than an iteration computes is not before the first iteration as a whole."""
    slow = calls(first_s=FIRST_S - 2.0, came_s=FIRST_S)
    of = found(slow, slow)
    assert of.samples is not None
    assert metrics.gst_s(of.samples).tolist() == pytest.approx([2.0 + SYNC_S] + [SYNC_S] * 4)
    assert jct_s(of) == pytest.approx(2.0 + SYNC_S + 4 * PERIOD_S)


def test_an_iteration_begins_where_a_mark_ends_the_one_before() -> None:
    marks_s = tuple(FIRST_S + SYNC_S + 0.15 + i for i in range(5))  # an optimiser's step takes 0.15 s
    of = found(calls(), calls(), marks_s=marks_s)
    assert jct_s(of) == pytest.approx(5 * PERIOD_S)


def test_nothing_begins_before_the_process_group() -> None:
    near = [replace(one, asked_s=one.asked_s - 9.2, done_s=one.done_s - 9.2) for one in calls()]
    of = found(near, near)
    assert of.samples is not None
    assert of.samples["start_s"].min() == MET_S


def test_a_single_iteration_begins_after_the_last_collective_of_the_setup() -> None:
    copied = call(0, 5000, 8.0, 0.5, op="broadcast", root=0)
    own = [copied, *calls(count=1)]
    assert jct_s(found(own, own, marks_s=(FIRST_S + 1.0,))) == pytest.approx(FIRST_S + 1.0 - 8.5)


def test_collectives_of_the_setup_are_not_waited_for_in_an_iteration_and_are_work_all_the_same() -> None:
    copied = call(0, 5000, 8.0, 0.5, op="broadcast", root=0)
    of = found([copied, *calls()], [copied, *calls()])
    assert of.samples is not None
    assert of.samples["exposed_s"].tolist() == pytest.approx([SYNC_S] * 10)
    assert of.samples["setup_busy_s"].tolist() == pytest.approx([0.5, 0, 0, 0, 0] * 2)
    assert ScriptMeasures().adding_s(of.samples)[0] == pytest.approx(5 * SYNC_S + 0.5)
    older = of.samples.drop(columns="setup_busy_s")
    assert ScriptMeasures().adding_s(older)[0] == pytest.approx(5 * SYNC_S)


def test_the_first_backward_pass_is_late_by_no_more_than_the_others() -> None:
    """As what is imported in it is set-up."""
    late = [(FIRST_S + i * PERIOD_S, 5.0 if i == 0 else 0.01) for i in range(5)]
    of = found(calls(), calls(), overruns=late)
    assert of.samples is not None
    assert of.samples["overrun_s"].tolist() == pytest.approx([0.01] * 10)


def test_the_start_of_the_first_collective_is_from_the_last_call_to_the_first_chunk_on_all_ranks() -> None:
    other = call(0, 50, 2.0, op="barrier")
    late = replace(other, asked_s=1.5, came_s=2.07)
    ranks = [rank(0, [replace(other, came_s=2.01), *calls()]), rank(1, [late, *calls()])]
    assert connect_s(ranks) == pytest.approx(0.07)
    assert connect_s([rank(0, [other, *calls()]), ranks[1]]) == pytest.approx(0.07), "who sends gets nothing"
    assert connect_s([rank(0, [other, *calls()])] * 2) is None, "Gloo does not say it"
    assert connect_s([rank(0, []), rank(1, [])]) is None


def test_an_iteration_begins_before_any_rank_ends_it() -> None:
    """Also if sums of ranks are whole before others have asked for them, which only ranks that sum nothing tell."""
    of = found(calls(), [replace(one, asked_s=one.asked_s + 9, done_s=one.done_s + 9) for one in calls()])
    assert of.samples is not None
    assert of.samples["start_s"].min() == FIRST_S + SYNC_S


def test_the_first_iteration_is_no_shorter_than_the_shortest_later_one() -> None:
    """A chunk that comes late on one rank delays nothing, and JCT would be shorter than its bound."""
    of = found(calls(came_s=FIRST_S + 0.2), calls())
    assert jct_s(of) == pytest.approx(5 * PERIOD_S)
