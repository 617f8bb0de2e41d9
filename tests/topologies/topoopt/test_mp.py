"""MP circuits: a maximum-weight matching a panel, with weights halved for circuits that are there."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from testbed.base.errors import TopologyError
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.finder import find
from testbed.topologies.topoopt.mp import Circuits, MpRoute, heaviest, mp_circuits, mp_routes
from tests.topologies.topoopt.cases import jobs, matrices, matrix

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


SQUARE = (((0, 1), (2, 3)), ((0, 2), (1, 3)))
"""Two ways from 0 to 3, over 1 and over 2."""


def found(
    pairs: list[tuple[int, int, int]], load: dict[tuple[int, int], int] | None = None
) -> dict[tuple[int, int], MpRoute]:
    routes = mp_routes(Circuits(4, SQUARE, load or {}), pairs)
    return {(route.path[0], route.path[-1]): route for route in routes}


def test_ties_go_to_the_lower_server_then_to_the_less_loaded_link() -> None:
    assert found([(0, 3, 5)])[0, 3].path == (0, 1, 3)
    assert found([(0, 3, 5)], {(0, 1): 1})[0, 3].path == (0, 2, 3)
    assert found([(0, 3, 5), (0, 1, 6)])[0, 3].path == (0, 2, 3), "the larger demand has chosen before"
    assert found([(0, 3, 5), (0, 1, 4)])[0, 3].path == (0, 1, 3), "the smaller one has not"


def test_parallel_circuits_share_their_load() -> None:
    panels = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 2),))
    (route,) = mp_routes(Circuits(4, panels, {(0, 1): 3, (0, 2): 4}), [(0, 3, 1)])
    assert route.path == (0, 2, 3)


def test_what_no_circuits_reach() -> None:
    with pytest.raises(TopologyError, match="no circuits lead from server 0 to server 2"):
        mp_routes(Circuits(3, (((0, 1),),), {}), [(0, 2, 1)])


def test_two_paths_end_at_two_nics_with_half_of_the_bytes_each() -> None:
    routes = mp_routes(Circuits(4, SQUARE, {}), [(0, 3, 5), (3, 0, 5), (0, 1, 9), (2, 1, 3)], paths=2)
    assert [(route.path, route.panel, route.transfer_bytes) for route in routes] == [
        ((0, 1), 0, 9),  # neighbours
        ((0, 2, 3), 0, 2.5),
        ((0, 1, 3), 1, 2.5),
        ((3, 1, 0), 0, 2.5),
        ((3, 2, 0), 1, 2.5),
        ((2, 3, 1), 1, 3),  # nothing is sent back
    ]


@given(jobs(9), st.integers(2, 5), st.integers(1, 3))
def test_routes_follow_circuits_are_shortest_and_no_two_next_hops_contradict(
    job: Demand, degree: int, paths: int
) -> None:
    if job.servers % 2 and degree == 2:
        degree = 3
    net = find(job, degree, paths=paths)
    lit = [{frozenset(pair) for pair in panel} for panel in net.panels]
    graph = nx.Graph([pair for panel in net.panels for pair in panel])
    next_hops: dict[tuple[int, object], int] = {}
    nics: dict[tuple[int, int], list[int]] = {}
    for route in net.mp_routes:
        source, destination = route.path[0], route.path[-1]
        assert len(set(route.path)) == len(route.path)
        assert frozenset(route.path[-2:]) in lit[route.panel]
        if paths == 1:
            assert route.hops == nx.shortest_path_length(graph, source, destination)
        nics.setdefault((source, destination), []).append(route.panel)
        address = destination if paths == 1 else (destination, route.panel)
        for here, there in pairwise(route.path):
            assert any(frozenset((here, there)) in panel for panel in lit)
            assert next_hops.setdefault((here, address), there) == there
    assert set(nics) == {(i, j) for i, j, _ in job.pairs()}
    for panels in nics.values():
        assert len(set(panels)) == len(panels) <= paths
    sent = sum(route.transfer_bytes for route in net.mp_routes)
    assert sent == pytest.approx(job.mp_total_bytes)
