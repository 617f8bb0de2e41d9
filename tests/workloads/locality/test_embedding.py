"""Equation 4.1: worked examples, and the least that another method finds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from testbed.workloads.locality.embedding import embed


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
