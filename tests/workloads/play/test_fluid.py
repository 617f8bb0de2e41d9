"""The network as fluids: its shares are max-min fair, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import MissingToolError
from testbed.workloads.play import compiled
from testbed.workloads.play.fluid import Fluid

LINKS = 5
PATHS = st.lists(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=LINKS, unique=True), min_size=1, max_size=9)
RATES = st.lists(st.integers(0, 40), min_size=LINKS, max_size=LINKS)


def network(rates: Sequence[float], paths: Sequence[Sequence[int]], count_bytes: float = 1.0) -> Fluid:
    """A network in which each path has a connection that sends a message."""
    made = Fluid(np.array(rates, np.float64))
    for path in paths:
        made.send(made.connect(path), count_bytes)
    return made


def exact_shares(rates: Sequence[int], paths: Sequence[Sequence[int]]) -> list[Fraction]:
    """Raise all shares together, in whole fractions; those that cross a link that is full stay."""
    share = [Fraction(0)] * len(paths)
    rising = set(range(len(paths)))
    while rising:
        room = {
            link: (rates[link] - sum(share[i] for i, path in enumerate(paths) if link in path)) / Fraction(count)
            for link in range(LINKS)
            if (count := sum(link in paths[i] for i in rising))
        }
        step = min(room.values())
        for i in rising:
            share[i] += step
        full = {link for link, left in room.items() if left == step}
        rising = {i for i in rising if full.isdisjoint(paths[i])}
    return share


@pytest.mark.parametrize(("rates", "shares"), [((1, 1), (0.5, 0.5, 0.5)), ((3, 1), (2.5, 0.5, 0.5))])
def test_worked_example_of_three_connections_over_two_links(rates: tuple[int, int], shares: tuple[float, ...]) -> None:
    assert network(rates, [[0], [1], [0, 1]]).shares_bps().tolist() == pytest.approx(shares)


@settings(max_examples=200, deadline=None)
@given(RATES, PATHS)
def test_shares_are_those_of_exact_arithmetic(rates: list[int], paths: list[list[int]]) -> None:
    exact = [float(share) for share in exact_shares(rates, paths)]
    assert network(rates, paths).shares_bps().tolist() == pytest.approx(exact, rel=1e-8, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(RATES, PATHS)
def test_each_connection_crosses_a_full_link_on_which_nobody_is_faster(
    rates: list[int], paths: list[list[int]]
) -> None:
    made = network(rates, paths)
    while not made.is_idle:
        shares = made.shares_bps()
        active = [i for i, share in enumerate(shares) if share or any(not rates[link] for link in paths[i])]
        load = [sum(shares[i] for i in active if link in paths[i]) for link in range(LINKS)]
        assert all(carried <= rate * (1 + 1e-8) for carried, rate in zip(load, rates, strict=True))
        for i in active:
            fastest = {link: max(shares[j] for j in active if link in paths[j]) for link in paths[i]}
            assert any(
                load[link] >= rates[link] * (1 - 1e-8) and shares[i] >= fastest[link] * (1 - 1e-8) for link in paths[i]
            )
        if not made.advance():
            break  # the rest is blocked
    blocked = {i for i, path in enumerate(paths) if any(not rates[link] for link in path)}
    carried = [sum(link in path for i, path in enumerate(paths) if i not in blocked) for link in range(LINKS)]
    assert made.carried_bytes().tolist() == carried
    assert made.is_idle == (not blocked)


def test_messages_of_a_connection_follow_each_other_and_share_again_when_one_ends() -> None:
    made = Fluid(np.array([8.0]))
    first, second = made.connect([0]), made.connect([0])
    for connection, count_bytes in ((first, 1), (first, 1), (second, 3)):
        made.send(connection, count_bytes)
    seen = []
    while ended := made.advance():
        seen.append((round(made.now_s, 9), ended))
    assert seen == [(2.0, [first]), (4.0, [first]), (5.0, [second])]


def test_time_stops_where_it_is_asked_to() -> None:
    made = network([8.0], [[0]])
    assert (made.advance(0.25), made.now_s) == ([], 0.25)
    assert (made.advance(1.0), made.now_s) == ([0], 1.0)
    assert (made.advance(3.0), made.now_s) == ([], 3.0)


def test_what_makes_no_sense_never_reaches_the_solver() -> None:
    made = network([8.0], [[0]])
    for rate in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="a rate that is no number"):
            Fluid(np.array([1.0, rate]))
    for path in ([], [1], [-1]):
        with pytest.raises(ValueError, match="no path"):
            made.connect(path)
    for connection, count_bytes in ((1, 1.0), (-1, 1.0), (0, -1.0), (0, math.nan), (0, math.inf)):
        with pytest.raises(ValueError, match="a message of"):
            made.send(connection, count_bytes)
    for link, rate in ((1, 1.0), (0, -1.0), (0, math.nan)):
        with pytest.raises(ValueError, match="a rate of"):
            made.set_rate(link, rate)


def test_without_a_solver_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LIBRARY", "testbed.workloads.play._none")
    with pytest.raises(MissingToolError, match="is not installed") as caught:
        compiled.library.__wrapped__()
    assert "install a C compiler" in str(caught.value.fix)
