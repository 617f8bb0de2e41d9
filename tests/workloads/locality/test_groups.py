"""Groups of near hosts, by k-means with a least size, and by chance."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from testbed.base.errors import MissingToolError
from testbed.workloads.locality.groups import balanced_random, by_number, group_count, near


@pytest.mark.parametrize(("hosts", "count"), [(1, 1), (2, 1), (3, 2), (12, 3), (13, 4), (16, 4), (20, 4), (21, 5)])
def test_as_many_groups_as_the_root_to_the_nearest(hosts: int, count: int) -> None:
    assert group_count(hosts) == count


def inertia(points: np.ndarray, groups: list[list[int]]) -> float:
    return sum(float(((points[group] - points[group].mean(axis=0)) ** 2).sum()) for group in groups)


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_one_size_have_the_least_inertia_of_all(seed: int) -> None:
    points = np.random.default_rng(seed).random((8, 2))
    groups = near(points, 2, 1.0, seed)
    assert [len(group) for group in groups] == [4, 4]
    halves = [[list(half), [host for host in range(8) if host not in half]] for half in combinations(range(8), 4)]
    assert inertia(points, groups) == pytest.approx(min(inertia(points, half) for half in halves), rel=0.02)


def test_elasticity_lets_a_far_host_be_where_it_belongs() -> None:
    """Five hosts here and three there: groups of four split the five."""
    points = np.array([[0.0, i / 10] for i in range(5)] + [[5.0, i / 10] for i in range(3)])
    assert sorted(map(len, near(points, 2, 1.0, 0))) == [4, 4]
    assert near(points, 2, 1.34, 0) == [[0, 1, 2, 3, 4], [5, 6, 7]]


def test_the_most_equal_sizes_come_first() -> None:
    """Three at one place, three at another and two in between: of 3 and 5, 4 and 4, the latter."""
    points = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [2.0], [2.1], [2.2]])
    assert near(points, 2, 2.0, 1) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_balanced_random_takes_any_hosts_and_sizes_differ_by_one() -> None:
    assert balanced_random(10, 3, 5) == balanced_random(10, 3, 5)
    together: Counter[tuple[int, int]] = Counter()
    for draw in range(300):
        groups = balanced_random(10, 3, draw)
        assert sorted(map(len, groups)) == [3, 3, 4]
        assert sorted(host for group in groups for host in group) == list(range(10))
        together.update(pair for group in groups for pair in combinations(group, 2))
    assert len(together) == 45
    assert 40 < min(together.values()) <= max(together.values()) < 130  # 80 each, within five deviations
    assert by_number(7, 3) == [[0, 1, 2], [3, 4], [5, 6]]


def test_without_its_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.workloads.locality.groups.find_spec", lambda _: None)
    with pytest.raises(MissingToolError) as caught:
        near(np.zeros((4, 2)), 2, 1.0, 0)
    assert str(caught.value) == (
        "two_level(groups=probed) needs the Python package k-means-constrained, which is not installed\n"
        "  fix: pip install 'k-means-constrained>=0.9'"
    )
