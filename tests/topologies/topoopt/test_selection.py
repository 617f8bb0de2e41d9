"""Which rings are selected: strides in geometric ratio, and Algorithm 4's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.circuits import lay
from testbed.topologies.topoopt.demand import Demand, Group, candle, demand, dlrm
from testbed.topologies.topoopt.rings import both_ways, fewest, order, rings
from testbed.topologies.topoopt.selection import (
    allot,
    allreduce_rings,
    allreduce_share,
    by_difference,
    rings_that_fit,
    select,
    top_permutations,
)
from tests.topologies.topoopt.cases import jobs, matrices

NOTHING = np.zeros((432, 432), dtype=np.int64)


def hops(servers: int, strides: list[int]) -> tuple[float, int]:
    count = fewest(servers, both_ways(servers, strides))
    return round(sum(count) / (servers - 1), 2), max(count)


@pytest.mark.parametrize(
    ("servers", "count", "strides", "mean", "diameter"),
    [
        (16, 3, [1, 3, 7], 1.73, 3),
        (128, 2, [1, 11], 5.48, 9),
        (432, 4, [1, 5, 19, 95], 4.19, 7),
    ],
)
def test_geometric(servers: int, count: int, strides: list[int], mean: float, diameter: int) -> None:
    assert select("geometric", range(servers), count, NOTHING) == strides
    assert hops(servers, strides) == (mean, diameter)


def test_the_best_two_rings_of_128_servers_reach_diameter_8() -> None:
    assert min(hops(128, [1, p])[1] for p in rings(128)) == 8


def test_even_picks_of_432_servers_have_long_routes() -> None:
    strides = select("mp", range(432), 4, dlrm(432).mp_bytes)
    assert strides == [1, 55, 109, 163]
    mean, diameter = hops(432, strides)
    assert (round(mean, 1), diameter) == (13.6, 27)


@pytest.mark.parametrize("how", ["geometric", "mp"])
def test_strides_repeat_if_there_are_more_rings_than_strides(how: str) -> None:
    assert select(how, range(12), 3, NOTHING) == [1, 5, 1]  # type: ignore[arg-type]
    assert select(how, range(12), 4, NOTHING) == [1, 5, 1, 5]  # type: ignore[arg-type]
    assert select(how, range(2), 3, NOTHING) == [1, 1, 1]  # type: ignore[arg-type]


def test_any_three_rings_satisfy_as_much_of_a_uniform_one_to_many_demand() -> None:
    demand = dlrm().mp_bytes
    sent = by_difference(range(16), demand)
    for left_out in (1, 3, 5, 7):
        pick = [p for p in (1, 3, 5, 7) if p != left_out]
        assert sum(sent[coin] for coin in both_ways(16, pick)) == 1536 * 2**20
    assert demand.sum() == 3840 * 2**20


def test_demand_between_two_places_decides() -> None:
    demand = NOTHING[:16, :16].copy()
    demand[2, 15] = 100  # 13 = -3
    assert select("mp", range(16), 1, demand) == [3]
    members = [1, 2, 4, 7, 8, 11, 13, 15]
    assert select("mp", members, 1, demand) == [1], "of 8 members their places differ by 6: two hops by either ring"
    assert select("mp", members[1:], 1, demand) == [1], "of 7 members, places 0 and 6"


@st.composite
def picks(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    servers = draw(st.integers(3, 24))
    count = draw(st.integers(1, len(rings(servers))))
    return servers, count, draw(st.lists(st.integers(0, 9), min_size=servers, max_size=servers))


@given(picks())
def test_top_permutations_is_the_best_start_by_bytes_then_hops_then_place(case: tuple[int, int, list[int]]) -> None:
    servers, count, sent = case
    candidates = rings(servers)
    total = len(candidates)
    ranked = []
    for start in range(total):
        pick = [candidates[(start + i * total // count) % total] for i in range(count)]
        far = fewest(servers, both_ways(servers, pick))
        direct = sum(size for size, steps in zip(sent, far, strict=True) if steps == 1)
        ranked.append((-direct, sum(size * steps for size, steps in zip(sent, far, strict=True)), start, pick))
    assert top_permutations(candidates, count, sent) == min(ranked)[3]


@given(matrices(6))
def test_bytes_by_difference_are_those_of_the_members(demand: np.ndarray) -> None:
    members = [0, 2, 3, 5]
    assert by_difference(members, demand) == [
        sum(int(demand[members[i], members[(i + d) % 4]]) for i in range(4)) for d in range(4)
    ]


def test_dlrm_of_section_2_2_has_three_rings_and_no_mp_port() -> None:
    job = dlrm()
    assert round(allreduce_share(job), 3) == 0.945
    assert allreduce_rings(job, 6) == rings_that_fit(16, 6) == 3


def test_candle_of_section_2_2_has_groups_of_4_4_and_16() -> None:
    job = candle()
    found = allot(job, allreduce_rings(job, 6))
    assert [(len(one.members), one.rings) for one in found] == [(16, 2), (4, 1), (4, 1)]
    assert [one.members for one in found[1:]] == [(0, 1, 2, 3), (12, 13, 14, 15)]


@pytest.mark.parametrize(
    ("servers", "degree", "rings"),
    [(2, 2, 1), (2, 5, 2), (3, 3, 1), (3, 5, 1), (3, 6, 2), (4, 2, 1), (4, 3, 1), (15, 3, 1), (15, 6, 2), (15, 7, 3)],
)
def test_rings_that_fit(servers: int, degree: int, rings: int) -> None:
    assert rings_that_fit(servers, degree) == rings


def test_as_many_rings_as_fit_are_laid_up_to_a_degree_of_half_the_servers() -> None:
    for servers in range(2, 26):
        for degree in range(2 + servers % 2, max(4, servers // 2 + 2)):
            count = rings_that_fit(servers, degree)
            strides = select("geometric", range(servers), count, dlrm(servers, []).mp_bytes)
            assert len(lay(servers, [order(range(servers), p) for p in strides])) <= degree, (servers, degree)


@pytest.mark.parametrize(
    ("servers", "degree", "text"),
    [
        (
            15,
            2,
            "topoopt: 15 servers of degree 2 cannot be joined by a ring: over an odd number of servers it takes 3 "
            "panels\n  fix: give degree=3 or more, or one server more",
        ),
        (
            16,
            1,
            "topoopt: 16 servers of degree 1 cannot be joined by a ring: it takes 2 panels"
            "\n  fix: give degree=2 or more",
        ),
        (16, 0, "topoopt: degree is 0\n  fix: give degree at least 1"),
        (
            16,
            10**9,
            "topoopt with servers=16, degree=1000000000 has more than 262,144 links, the most that can be built"
            "\n  fix: make it smaller",
        ),
    ],
)
def test_degrees_that_cannot_be(servers: int, degree: int, text: str) -> None:
    with pytest.raises(TopologyError) as error:
        rings_that_fit(servers, degree)
    assert str(error.value) == text


def job(servers: int, *groups: tuple[tuple[int, ...], int], mp: int = 0) -> Demand:
    sent = [[0] * servers for _ in range(servers)]
    sent[0][1] = mp
    return demand(servers, [Group(members, size) for members, size in groups], sent)


def test_two_equal_groups_share_the_rings_equally() -> None:
    """Of what is left, the second would get a half: two rings of four, and one."""
    found = allot(job(8, (tuple(range(8)), 1), ((0, 1, 2, 3), 2)), 4)
    assert [(one.group, one.rings) for one in found] == [(0, 2), (1, 2)]


def test_the_group_of_all_servers_always_has_a_ring() -> None:
    found = allot(job(8, ((0, 1, 2, 3), 10**6), (tuple(range(8)), 1)), 2)
    assert [(one.group, one.rings) for one in found] == [(0, 1), (1, 1)]


def test_without_a_group_of_all_servers_ring_1_over_all_comes_first() -> None:
    found = allot(job(6, ((0, 1, 2), 9), ((4, 5), 9)), 3)
    assert [(one.group, len(one.members), one.rings) for one in found] == [(None, 6, 1), (0, 3, 2), (1, 2, 2)]
    assert [(one.group, one.rings) for one in allot(job(6, mp=5), 1)] == [(None, 1)]
    assert [(one.group, one.rings) for one in allot(job(6, ((0, 1, 2), 9)), 1)] == [(None, 1)], "no port is left"


@given(jobs(), st.integers(1, 6))
def test_no_server_gives_more_ports_than_rings_may_have_and_no_group_more_than_its_share(
    job: Demand, rings: int
) -> None:
    ports: Counter[int] = Counter()
    found = allot(job, rings)
    for one in found:
        ports.update(dict.fromkeys(one.members, one.rings * (1 if len(one.members) == 2 < job.servers else 2)))
        if one.group is not None:
            share = rings * job.groups[one.group].total_bytes / job.allreduce_total_bytes
            assert one.rings < share + 1
    assert max(ports.values()) <= 2 * rings
    assert any(len(one.members) == job.servers for one in found)
