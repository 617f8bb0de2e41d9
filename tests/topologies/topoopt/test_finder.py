"""Algorithm 1 as a whole: what is found can be built, and is what was found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.addressing import routes
from testbed.topologies.build import build
from testbed.topologies.topoopt.demand import MODELS, Demand, Group, candle, demand, dlrm
from testbed.topologies.topoopt.finder import figures, find
from tests.topologies.topoopt.cases import jobs


def test_dlrm_of_section_2_2_as_in_figure_9() -> None:
    found = find(dlrm(), 6)
    told = figures(found)
    assert found.strides == [1, 3, 7]
    assert (found.mp_circuits, found.dark_ports) == ((), 0)
    assert told["mp_hops"] == {"mean": pytest.approx(1.733, abs=5e-4), "transfers": {1: 44, 2: 52, 3: 12}}
    assert told["bandwidth_tax"] == pytest.approx(1.041, abs=5e-4)
    assert told["scheme"] == "multi_ring(strides=[1,15,3,13,7,9])"


def test_candle_of_section_2_2_has_rings_for_its_three_groups() -> None:
    found = find(candle(), 6)
    assert [(ring.group, len(ring.members), ring.stride) for ring in found.rings] == [
        (2, 16, 1),
        (2, 16, 3),
        (0, 4, 1),
        (1, 4, 1),
    ]
    lit = {server for panel in found.panels[4:] for pair in panel for server in pair}
    assert lit == {0, 1, 2, 3, 12, 13, 14, 15}, "the two small rings are on the same two panels"
    assert found.dark_ports == 16
    assert found.topology.startswith("patch_panel(servers=16,degree=6,rings=[1,3,[0,1,2,3],[12,13,14,15]],routes=[")
    assert found.scheme is None


def test_ports_that_allreduce_leaves_get_matchings() -> None:
    found = find(dlrm(16, [0, 5]), 5)
    assert found.strides == [1, 3]
    assert found.mp_circuits == (((0, 5),),), "both tables' servers, which send each other most"
    assert found.topology.startswith("patch_panel(servers=16,degree=5,rings=[1,3],circuits=[[0-5]],")


def test_odd_numbers_of_servers_give_the_panel_of_last_circuits_to_mp_too() -> None:
    mp = np.zeros((5, 5))
    mp[2, 4] = mp[0, 2] = 9
    found = find(demand(5, [Group(tuple(range(5)), 100)], mp), 3)
    assert found.panels == (((1, 2), (3, 4)), ((0, 4), (2, 3)), ((0, 1), (2, 4)))
    assert found.mp_circuits == (((2, 4),),), "server 0 has its port there for the ring's last circuit"
    assert found.dark_ports == 3


def test_servers_that_no_group_joins_are_joined_by_ring_1() -> None:
    mp = np.zeros((16, 16))
    mp[0, 3] = 100  # for which --select mp would take stride 3
    found = find(demand(16, [Group((0, 4, 8, 12), 900)], mp), 4, "mp")
    assert [(ring.group, ring.stride) for ring in found.rings][:2] == [(None, 1), (0, 1)]
    assert found.scheme is None


def test_more_rings_than_strides_are_parallel_circuits() -> None:
    found = find(dlrm(12), 6)
    assert found.strides == [1, 5, 1]
    assert "rings=[1,5,1]" in found.topology
    built = build(found.topology, rate_bps=10**9)
    assert Counter(pair for panel in built.panels.lit for pair in panel)[0, 1] == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", ["geometric", "mp"])
def test_the_same_is_found_twice_to_the_byte(model: str, how: str) -> None:
    one, two = (repr(figures(find(MODELS[model](16), 8, how))) for _ in range(2))  # type: ignore[arg-type]
    assert one == two


@settings(max_examples=60)
@given(jobs(), st.integers(2, 7), st.sampled_from(["geometric", "mp"]), st.sampled_from([1, 2, 3]))
def test_the_expression_builds_the_panels_and_the_routes_that_were_found(
    job: Demand, degree: int, how: str, paths: int
) -> None:
    if job.servers % 2 and degree == 2:
        degree = 3
    found = find(job, degree, how, paths)  # type: ignore[arg-type]
    built = build(found.topology, rate_bps=10**9)
    assert built.panels is not None
    assert built.panels.lit == found.panels
    direct = found.network(10**9)
    assert (direct.expression, direct.panels) == (built.expression, built.panels)
    ways: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for route in found.mp_routes:
        ways.setdefault((route.path[0], route.path[-1]), []).append(route.path)
    for (source, destination), wanted in ways.items():
        passed = [
            (source, *(built.head(link) for link in path.links[1::2])) for path in built.paths(source, destination)
        ]
        assert sorted(passed) == sorted(wanted) or set(passed) == set(wanted) == {(source, destination)}
    for ring in found.rings:
        for a, b in ring.pairs:
            assert len(built.paths(a, b)[0].links) == len(built.paths(b, a)[0].links) == 2
    hosts = range(job.servers)
    routes(built, [(i, j) for i in hosts for j in hosts])  # no two next hops contradict
    told = figures(found)
    assert told["bandwidth_tax"] >= 1
    assert sum(told["mp_hops"]["transfers"].values()) == len(found.mp_routes)
    assert len(ways) == len(job.pairs())
    assert found.dark_ports >= 0


def test_neighbours_have_their_circuit_and_others_several_paths() -> None:
    found = find(dlrm(), 6, paths=2)
    by_pair = Counter((route.path[0], route.path[-1]) for route in found.mp_routes)
    joined = {ends for panel in found.panels for a, b in panel for ends in ((a, b), (b, a))}
    assert {pair: count for pair, count in by_pair.items() if count == 2}.keys() == by_pair.keys() - joined
    assert len(found.routes) == 2 * len(by_pair.keys() - joined)
    assert all("@" in route for route in found.routes)
