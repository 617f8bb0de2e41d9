"""A job's transfers, and what they cannot be."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.topologies.topoopt.demand import Group, candle, demand, dlrm

ZERO = np.zeros((4, 4))


def test_dlrm_of_section_2_2_sends_96_times_32_and_12_times_64_mib() -> None:
    job = dlrm()
    assert Counter(size for _, _, size in job.pairs()) == {32 * 2**20: 96, 64 * 2**20: 12}
    assert {server for i, j, size in job.pairs() if size == 64 * 2**20 for server in (i, j)} == {0, 3, 8, 13}
    assert job.allreduce_total_bytes == 16 * 4 * 2**30


def test_candle_of_section_2_2_sends_samples_to_one_holder_of_each_tower() -> None:
    job = candle()
    assert [group.members for group in job.groups] == [(0, 1, 2, 3), (12, 13, 14, 15), tuple(range(16))]
    assert job.groups[0].transfer_bytes == 6 * 2**30  # 2 (k - 1) / k of 4 GiB
    assert Counter(size for _, _, size in job.pairs()) == {32 * 2**20: 56, 64 * 2**20: 2}
    assert {i for i, j, _ in job.pairs() if j == 1} == {0, 4, 5, 6, 7, 12}


def test_parts_of_a_byte_count_as_one_and_members_are_put_in_order() -> None:
    job = demand(4, [Group((3, 0, 1), 7)], np.eye(4)[[1, 0, 3, 2]] * 0.5)
    assert job.pairs() == [(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)]
    assert job.groups == (Group((0, 1, 3), 7),)
    assert Group.of_gradient((0, 1, 3), 100) == Group((0, 1, 3), 134)


def cell(value: float, i: int = 1, j: int = 2) -> np.ndarray:
    found = ZERO.copy()
    found[i, j] = value
    return found


@pytest.mark.parametrize(
    ("servers", "groups", "mp", "text"),
    [
        (1, [], [[0]], "a job of 1 servers\n  fix: give 2 to 4,096 servers"),
        (
            4,
            [Group((0, 4), 1)],
            ZERO,
            "group 0 names server 4, which does not exist\n  fix: name servers 0 to 3",
        ),
        (4, [Group((0, 1, 0), 1)], ZERO, "group 0 names server 0 twice\n  fix: name each member once"),
        (4, [Group((2,), 1)], ZERO, "group 0 has 1 member\n  fix: name at least two servers, or leave it out"),
        (4, [Group((), 1)], ZERO, "group 0 has 0 members\n  fix: name at least two servers, or leave it out"),
        (
            4,
            [Group((0, 1), 0)],
            ZERO,
            "group 0 sends 0 B\n  fix: give each of its members 1 to 9,007,199,254,740,992 B to send",
        ),
        (
            4,
            [Group((0, 1), 1), Group((1, 0), 2)],
            ZERO,
            "groups 0 and 1 have the same members\n  fix: make one group of them: add up their bytes",
        ),
        (4, [], ZERO[:3], "T_MP is 3 x 4\n  fix: give 4 x 4 numbers, a row for each source"),
        (
            4,
            [],
            cell(math.nan),
            "T_MP: server 1 sends nan B to server 2\n  fix: give 0 to 9,007,199,254,740,992 B",
        ),
        (4, [], cell(-1), "T_MP: server 1 sends -1 B to server 2\n  fix: give 0 to 9,007,199,254,740,992 B"),
        (4, [], cell(math.inf), "T_MP: server 1 sends inf B to server 2\n  fix: give 0 to 9,007,199,254,740,992 B"),
        (
            4,
            [],
            cell(5, 3, 3),
            "T_MP: server 3 sends 5 B to itself\n  fix: give 0 there: that crosses no network",
        ),
        (4, [], ZERO, "the job sends nothing\n  fix: give AllReduce groups, MP transfers, or both"),
    ],
)
def test_what_cannot_be(servers: int, groups: list[Group], mp: object, text: str) -> None:
    with pytest.raises(SpecError) as error:
        demand(servers, groups, mp)  # type: ignore[arg-type]
    assert str(error.value) == text
