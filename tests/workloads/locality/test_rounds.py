"""Rounds of disjoint pairs."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.locality.rounds import rounds


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
