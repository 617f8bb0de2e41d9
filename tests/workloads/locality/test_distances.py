"""Distances of both directions, pairs without one, and hosts that nobody reaches."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TrialError
from testbed.workloads.locality.distances import (
    Place,
    by_bandwidth,
    by_observer,
    check_complete,
    comparable,
    missing,
    paia,
    rounds,
    symmetric,
)


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


def cloud(rows: int, racks: int, hosts: int) -> list[Place]:
    return [(row, rack) for row, rack, _ in product(range(rows), range(racks), range(hosts))]


@pytest.mark.parametrize(
    ("rows", "racks", "hosts", "triplets"), [(1, 2, 4, 96), (1, 4, 4, 576), (2, 2, 2, 112), (2, 2, 4, 1088)]
)
def test_comparable_triplets(rows: int, racks: int, hosts: int, triplets: int) -> None:
    assert comparable(cloud(rows, racks, hosts)) == triplets


def test_a_tie_and_a_missing_pair_score_nothing() -> None:
    """h0 and h1 share a rack, h2 has another: h0 and h1 each compare two others."""
    places = [(0, 0), (0, 0), (0, 1)]
    right = np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0.0]])
    assert paia(places, right) == 1
    tied = np.array([[0, 2, 2], [2, 0, 3], [2, 3, 0.0]])
    assert paia(places, tied) == 0.5
    missing = np.array([[0, 1, np.nan], [1, 0, 2], [np.nan, 2, 0.0]])
    assert paia(places, missing) == 0.5
    assert paia(places, right.max() - right) == 0
    assert by_observer(places, tied).tolist() == pytest.approx([0, 1, math.nan], nan_ok=True)


def test_hosts_of_one_rack_compare_nothing() -> None:
    assert comparable(cloud(1, 1, 4)) == 0
    assert math.isnan(paia(cloud(1, 1, 4), np.ones((4, 4))))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=7), st.integers(0, 99))
def test_as_counted_one_by_one(places: list[tuple[int, int]], seed: int) -> None:
    """Also whichever numbers the hosts have."""
    random = np.random.default_rng(seed)
    distances = random.integers(1, 5, (len(places), len(places))).astype(float)
    distances = np.triu(distances, 1) + np.triu(distances, 1).T

    def shared(a: int, b: int) -> int:
        return 2 if places[a] == places[b] else int(places[a][0] == places[b][0])

    scores = []
    for c in range(len(places)):
        for a, b in combinations([host for host in range(len(places)) if host != c], 2):
            if shared(a, c) != shared(b, c):
                near, far = (a, b) if shared(a, c) > shared(b, c) else (b, a)
                scores.append(distances[near, c] < distances[far, c])
    assert comparable(places) == len(scores)
    if scores:
        assert paia(places, distances) == pytest.approx(sum(scores) / len(scores))
        other = random.permutation(len(places))
        renamed = paia([places[host] for host in other], distances[np.ix_(other, other)])
        assert renamed == pytest.approx(sum(scores) / len(scores))
