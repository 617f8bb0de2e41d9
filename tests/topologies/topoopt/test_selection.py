"""Which rings are selected: strides in geometric ratio, and Algorithm 4's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.topoopt.coin_change import both_ways, fewest
from testbed.topologies.topoopt.models import dlrm
from testbed.topologies.topoopt.selection import by_difference, select, top_permutations
from testbed.topologies.topoopt.totient import rings
from tests.topologies.topoopt.cases import matrices

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
