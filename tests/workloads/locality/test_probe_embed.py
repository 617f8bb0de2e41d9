"""Decisions: racks are found, names and numbers of hosts do not matter, and settings out of bounds are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from testbed.base.errors import MissingToolError, SchemeError
from testbed.workloads.locality.probe_embed import balanced_random, by_number, decide, embed, group_count, near

NAMES = [f"h{host}" for host in range(16)]
RACK = np.arange(16) * 7 % 16 // 4
"""Racks of four, whose hosts have no neighbouring numbers."""


def probed(seed: int = 0) -> np.ndarray:
    """Round trips (ms) on four racks, with noise."""
    noise = np.random.default_rng(seed).exponential(0.1, (16, 16))
    base = np.where(RACK[:, None] == RACK[None], 0.15, 2.15)
    result: np.ndarray = base + np.maximum(noise, noise.T)
    np.fill_diagonal(result, 0)
    return result


def sets(groups: Any) -> set[frozenset[str]]:
    return {frozenset(group) for group in groups}


def racks(names: Sequence[str]) -> set[frozenset[str]]:
    return {frozenset(names[host] for host in np.flatnonzero(rack == RACK)) for rack in range(4)}


def test_groups_are_racks() -> None:
    result = decide(NAMES, probed(), {"groups": "probed", "classes": 64, "alpha": 2.0}, 1)
    assert sets(result["groups"]) == racks(NAMES)
    assert {name: value for name, value in result.items() if name != "groups"} == {"classes": 64}


def test_a_missing_pair_is_left_out() -> None:
    distances = probed()
    distances[3, 8] = distances[8, 3] = np.nan
    assert sets(decide(NAMES, distances, {}, 1)["groups"]) == racks(NAMES)


@pytest.mark.parametrize("seed", range(4))
def test_renamed_hosts_are_in_the_same_groups_renamed(seed: int) -> None:
    """Whether hosts have other names, or other numbers: also where noise hides the racks."""
    random = np.random.default_rng(seed)
    distances = random.random((11, 11)) + 0.1
    distances += distances.T
    np.fill_diagonal(distances, 0)
    names = [f"host-{letter}" for letter in "kjihgfedcba"]
    first = decide(names, distances, {"k": 3}, seed)["groups"]
    others = [f"vm{number}" for number in random.permutation(11)]
    renamed = decide(others, distances, {"k": 3}, seed)["groups"]
    to = dict(zip(names, others, strict=True))
    assert renamed == tuple(tuple(to[name] for name in group) for group in first)  # type: ignore[union-attr]
    order = random.permutation(11)
    moved = decide([names[host] for host in order], distances[np.ix_(order, order)], {"k": 3}, seed)["groups"]
    assert sets(moved) == sets(first)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"alpha": 3.0}, "two_level: alpha is 3\n  fix: give it 1, for distances as probed, to 2"),
        ({"elasticity": 0.5}, "two_level: elasticity is 0.5\n  fix: give it 1, for groups of one size, to 2"),
        ({"dimensions": 0}, "two_level: dimensions is 0\n  fix: give it 1 to 16"),
        ({"k": 20}, "two_level has 20 groups for 16 hosts\n  fix: give k 2 to 8, or leave it out for 4"),
        ({"k": 1}, "two_level has 1 group for 16 hosts\n  fix: give k 2 to 8, or leave it out for 4"),
    ],
)
def test_texts(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        decide(NAMES, probed(), parameters, 0)
    assert str(caught.value) == text


def test_three_equal_distances_in_one_dimension() -> None:
    """The middle host is 2/3 from both others, which are 4/3 from each other: 2/9 + 1/9."""
    result = embed(np.ones((3, 3)), dimensions=1)
    assert result.loss == pytest.approx(1 / 3, abs=1e-4)
    assert sorted(result.distances[np.triu_indices(3, 1)]) == pytest.approx([2 / 3, 2 / 3, 4 / 3], abs=0.01)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_distances_that_a_plane_has_are_kept(alpha: float) -> None:
    places = np.random.default_rng(3).random((9, 2))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    result = embed(apart**alpha, alpha=alpha)
    assert result.loss < 1e-3
    kept = result.distances / apart.mean()
    assert np.corrcoef(kept.ravel(), apart.ravel())[0, 1] > 0.999


def least(probed: np.ndarray, alpha: float, dimensions: int, startup: bool) -> float:
    """The least of equation 4.1, written down once more, that a quasi-Newton method finds from 40 starts."""
    hosts = len(probed)
    pairs = [pair for pair in combinations(range(hosts), 2) if not np.isnan(probed[pair])]
    mean = np.mean([probed[pair] for pair in pairs])

    def loss(values: np.ndarray) -> float:
        places = values[: hosts * dimensions].reshape(hosts, dimensions)
        fixed = values[hosts * dimensions :] ** 2 if startup else np.zeros(hosts)
        return sum(
            (np.linalg.norm(places[i] - places[j]) ** alpha + fixed[i] + fixed[j] - probed[i, j] / mean) ** 2
            for i, j in pairs
        )

    random = np.random.default_rng(0)
    count = hosts * dimensions + hosts * startup
    return min(float(minimize(loss, random.standard_normal(count)).fun) for _ in range(40))


@pytest.mark.parametrize(("alpha", "startup"), [(1.0, False), (1.5, False), (2.0, True)])
def test_no_other_method_finds_less(alpha: float, startup: bool) -> None:
    """Four hosts in one dimension, one pair of which has no distance."""
    random = np.random.default_rng(7)
    probed = random.random((4, 4)) + 0.2
    probed = np.triu(probed, 1) + np.triu(probed, 1).T
    probed[0, 3] = probed[3, 0] = np.nan
    result = embed(probed, alpha=alpha, dimensions=1, startup=startup)
    assert result.loss <= least(probed, alpha, 1, startup) + 2e-3
    assert (result.startup >= 0).all()
    assert result.startup.any() == startup


def test_a_seed_gives_the_same_again_and_units_do_not_matter() -> None:
    probed = np.random.default_rng(1).random((6, 6))
    probed += probed.T
    first, again, in_ms = embed(probed, seed=4), embed(probed, seed=4), embed(1000 * probed, seed=4)
    assert np.array_equal(first.coordinates, again.coordinates)
    assert in_ms.distances == pytest.approx(first.distances, abs=1e-6)


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
    monkeypatch.setattr("testbed.workloads.locality.probe_embed.find_spec", lambda _: None)
    with pytest.raises(MissingToolError) as caught:
        near(np.zeros((4, 2)), 2, 1.0, 0)
    assert str(caught.value) == (
        "two_level(groups=probed) needs the Python package k-means-constrained, which is not installed\n"
        "  fix: pip install 'k-means-constrained>=0.9'"
    )
