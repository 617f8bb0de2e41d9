"""When packets are due, as pure arithmetic."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.lab.base import Impairment
from testbed.lab.netns.network.delay_line import AHEAD, CUT, LOST, Lane, late_s

MS = 10**6
MANY = 20_000
GAPS_NS = st.lists(st.integers(0, 10 * MS), max_size=200)
IMPAIRMENTS = st.builds(Impairment, st.floats(0.0001, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


def arrivals(gaps_ns: list[int]) -> list[int]:
    return [sum(gaps_ns[: i + 1]) for i in range(len(gaps_ns))]


def test_a_delay_is_added() -> None:
    lane = Lane(1, Impairment(0.002))
    assert [lane.due_ns(at) for at in (5 * MS, 5 * MS, 9 * MS)] == [7 * MS, 7 * MS, 11 * MS]


@given(GAPS_NS, IMPAIRMENTS, st.integers(0, 2**40))
def test_order_is_kept_and_nothing_is_early(gaps_ns: list[int], impairment: Impairment, seed: int) -> None:
    lane, again = Lane(seed, impairment), Lane(seed, impairment)
    at = arrivals(gaps_ns)
    due = [lane.due_ns(one) for one in at]
    waiting = [(arrived, one) for arrived, one in zip(at, due, strict=True) if one not in (LOST, AHEAD)]
    assert all(one >= arrived for arrived, one in waiting)
    assert all(earlier <= later for (_, earlier), (_, later) in pairwise(waiting))
    assert due == [again.due_ns(one) for one in at]


@given(GAPS_NS, IMPAIRMENTS, IMPAIRMENTS)
def test_order_is_kept_when_the_delay_changes(gaps_ns: list[int], before: Impairment, after: Impairment) -> None:
    lane = Lane(1, before)
    due = [lane.due_ns(one) for one in arrivals(gaps_ns)]
    lane.impairment = after
    due += [lane.due_ns(sum(gaps_ns) + one) for one in arrivals(gaps_ns)]
    waiting = [one for one in due if one >= 0]
    assert waiting == sorted(waiting)


def test_shares_and_jitter_are_those_asked_for() -> None:
    lane = Lane(7, Impairment(0.01, 0.001, 0.02, 0.05))
    due = [(at, lane.due_ns(at)) for at in range(0, MANY * 100 * MS, 100 * MS)]
    assert sum(one == LOST for _, one in due) / MANY == pytest.approx(0.02, abs=0.005)
    assert sum(one == AHEAD for _, one in due) / MANY == pytest.approx(0.98 * 0.05, abs=0.008)
    delays_ms = [(one - at) / MS for at, one in due if one >= 0]
    assert mean(delays_ms) == pytest.approx(10, abs=0.05)
    assert pstdev(delays_ms) == pytest.approx(1, rel=0.05)


@given(st.lists(st.integers(1, 44), max_size=100), IMPAIRMENTS)
def test_a_large_packet_is_whole_unless_one_of_its_own_is_chosen(sizes: list[int], impairment: Impairment) -> None:
    whole, single = Lane(1, impairment), Lane(1, impairment)
    for size in sizes:
        due = whole.due_ns(0, size)
        found = [due] if due != CUT else [whole.due_ns(0) for _ in range(size)]
        expected = [single.due_ns(0) for _ in range(size)]
        assert [one for one in found if one < 0] == [one for one in expected if one < 0]
        assert (due == CUT) == (size > 1 and any(one < 0 for one in expected))


def test_most_large_packets_are_not_cut_where_few_packets_are_lost() -> None:
    lane = Lane(3, Impairment(loss=0.001))
    cut = 0
    for _ in range(MANY):
        if lane.due_ns(0, 44) == CUT:
            cut += 1
            for _ in range(44):
                lane.due_ns(0)
    assert cut / MANY == pytest.approx(1 - 0.999**44, abs=0.005)


def test_links_do_not_lose_the_same_packets() -> None:
    lost = [{at for at in range(1000) if lane.due_ns(at) == LOST} for lane in (Lane(1, LOSSY), Lane(2, LOSSY))]
    assert lost[0] != lost[1]


LOSSY = Impairment(loss=0.5)


def test_lateness_is_told_in_powers_of_two() -> None:
    counted = [50, 0, 0, 49, 1]  # 50 in time, 49 from 4 to 7 ns late, 1 from 8 to 15 ns
    assert [late_s(counted, share) for share in (0.5, 0.99, 1.0)] == [0.0, 8e-9, 16e-9]
    assert late_s([0] * 64, 0.5) == 0.0


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"delay_s": -0.001}, "a delay of -1 ms; a link can have 0 to 10 s\n  fix: choose one within"),
        ({"delay_s": float("nan")}, "a delay of nan ms; a link can have 0 to 10 s\n  fix: choose one within"),
        ({"delay_s": 11}, "a delay of 11000 ms; a link can have 0 to 10 s\n  fix: choose one within"),
        ({"jitter_s": -1}, "a jitter of -1000 ms; a link can have 0 to 10 s\n  fix: choose one within"),
        ({"loss": 1.5}, "a loss of 1.5; it is a share of packets, 0 to 1\n  fix: write 1 % as 0.01"),
        ({"loss": -0.1}, "a loss of -0.1; it is a share of packets, 0 to 1\n  fix: write 1 % as 0.01"),
        (
            {"reorder": 0.1},
            "a reorder of 0.1 has no effect without a delay\n  fix: give a delay as well",
        ),
    ],
)
def test_what_no_link_can_do_is_refused(values: dict[str, float], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Impairment(**values)
    assert str(caught.value) == text


def test_jitter_without_a_delay_is_fine() -> None:
    assert str(Impairment(jitter_s=0.001, loss=0.5)) == "jitter 1 ms, loss 50 %"
    assert (bool(Impairment()), str(Impairment())) == (False, "no impairment")
