"""Routes of MP transfers: shortest, by the less loaded link, and possible for servers that forward by destination."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.finder import find
from testbed.topologies.topoopt.mp_routes import Circuits, MpRoute, mp_routes
from tests.topologies.topoopt.cases import jobs

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
