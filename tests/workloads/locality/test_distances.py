"""Distances of both directions, pairs without one, and hosts that nobody reaches."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TrialError
from testbed.workloads.locality.distances import by_bandwidth, check_complete, missing, rounds, symmetric


def test_the_larger_direction_counts() -> None:
    result = symmetric(3, {(0, 1): 2.0, (1, 0): 3.0, (2, 0): 4.0, (1, 2): None})
    assert np.array_equal(result, [[0, 3, 4], [3, 0, np.nan], [4, np.nan, 0]], equal_nan=True)
    assert missing(result) == [(1, 2)]


def test_bandwidth_is_far_where_it_is_small() -> None:
    assert by_bandwidth({(0, 1): 100.0, (1, 0): 50.0, (0, 2): 0.0, (2, 0): None}) == {
        (0, 1): 0.01,
        (1, 0): 0.02,
        (0, 2): None,
        (2, 0): None,
    }


def measured(hosts: int, *silent: int) -> np.ndarray:
    return symmetric(hosts, {pair: None if set(pair) & set(silent) else 1.0 for pair in permutations(range(hosts), 2)})


def test_a_host_that_nobody_reaches_is_named() -> None:
    names = [f"h{host}" for host in range(5)]
    check_complete(names, measured(5))
    with pytest.raises(TrialError, match=r"^no probe reached h3, and none came from there"):
        check_complete(names, measured(5, 3))
    check_complete(["h0"], measured(1))


def test_a_tenth_of_the_pairs_may_be_missing() -> None:
    names, distances = ["h0", "h1", "h2", "h3", "h4"], measured(5)
    distances[0, 1] = distances[1, 0] = np.nan
    check_complete(names, distances)
    distances[2, 4] = distances[4, 2] = np.nan
    with pytest.raises(TrialError) as caught:
        check_complete(names, distances)
    assert str(caught.value) == (
        "2 of 10 pairs of hosts did not answer each other's probes: h0 and h1, h2 and h4\n"
        "  fix: at most 10% may be missing; see what the network loses"
    )


@pytest.mark.parametrize(("hosts", "count", "pairs"), [(8, 7, 4), (9, 9, 4), (2, 1, 1), (3, 3, 1)])
def test_as_few_rounds_as_there_can_be(hosts: int, count: int, pairs: int) -> None:
    assert [len(met) for met in rounds(hosts)] == [pairs] * count


@given(st.integers(0, 70))
def test_each_pair_meets_once_and_no_host_is_twice_in_a_round(hosts: int) -> None:
    result = rounds(hosts)
    assert sorted(pair for met in result for pair in met) == list(combinations(range(hosts), 2))
    for met in result:
        busy = [host for pair in met for host in pair]
        assert len(busy) == len(set(busy))
