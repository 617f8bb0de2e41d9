"""Accuracy over comparable triplets."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.locality.paia import Place, by_observer, comparable, paia


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
