"""How many rings AllReduce and each group get."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.laying import lay
from testbed.topologies.topoopt.degrees import allot, allreduce_rings, allreduce_share, rings_that_fit
from testbed.topologies.topoopt.demand import Demand, Group, demand
from testbed.topologies.topoopt.models import candle, dlrm
from testbed.topologies.topoopt.selection import select
from testbed.topologies.topoopt.totient import order
from tests.topologies.topoopt.cases import jobs


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
