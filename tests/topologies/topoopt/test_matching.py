"""MP circuits: a maximum-weight matching a panel, with weights halved for circuits that are there."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from testbed.topologies.topoopt.matching import heaviest, mp_circuits
from tests.topologies.topoopt.cases import matrices, matrix

WORKED = matrix(4, {"01": 10, "02": 6, "12": 4, "23": 3, "03": 2, "13": 1})


def best(weights: dict[tuple[int, int], Fraction], servers: frozenset[int]) -> Fraction:
    """The weight of the heaviest matching, by trying all."""

    @cache
    def of(left: frozenset[int]) -> Fraction:
        if not left:
            return Fraction(0)
        first = min(left)
        rest = left - {first}
        joined = (weights.get((first, other), Fraction(0)) + of(rest - {other}) for other in rest)
        return max([of(rest), *joined])

    return of(servers)


def test_a_worked_example() -> None:
    assert mp_circuits(WORKED, {}, [range(4)] * 3) == [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1), (2, 3))]


def test_circuits_of_rings_halve_a_pair_too_and_only_dark_ports_are_joined() -> None:
    assert mp_circuits(WORKED, {(0, 1): 1, (2, 3): 1}, [range(4)]) == [((0, 2), (1, 3))]
    assert mp_circuits(WORKED, {}, [[0, 2, 3], [1], []]) == [((0, 2),), (), ()]


def test_a_pair_without_demand_stays_dark() -> None:
    assert mp_circuits(matrix(4, {"01": 1}), {}, [range(4)] * 2) == [((0, 1),), ((0, 1),)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[tuple[int, int], int], list[set[int]]]:
    servers = draw(st.integers(2, 8))
    pairs = [(i, j) for j in range(servers) for i in range(j)]
    joined = draw(st.dictionaries(st.sampled_from(pairs), st.integers(1, 3), max_size=4))
    free = draw(st.lists(st.sets(st.integers(0, servers - 1)), min_size=1, max_size=3))
    return draw(matrices(servers)), joined, free


@given(cases())
def test_no_matching_is_heavier(case: tuple[NDArray[np.int64], dict[tuple[int, int], int], list[set[int]]]) -> None:
    demand, joined, free = case
    count = Counter(joined)
    for servers, found in zip(free, mp_circuits(demand, joined, free), strict=True):
        ends = [server for pair in found for server in pair]
        assert len(set(ends)) == len(ends)
        assert servers.issuperset(ends)
        weights = {
            (i, j): Fraction(int(demand[i, j] + demand[j, i]), 2 ** count[i, j])
            for j in range(len(demand))
            for i in range(j)
        }
        assert sum((weights[pair] for pair in found), Fraction(0)) == best(weights, frozenset(servers))
        assert all(weights[pair] for pair in found)
        count.update(found)


def test_bytes_beyond_the_whole_numbers_of_floats_are_told_apart() -> None:
    huge = 2**60
    assert heaviest({(0, 1): huge, (2, 3): huge, (0, 2): huge, (1, 3): huge + 1}) == ((0, 2), (1, 3))
