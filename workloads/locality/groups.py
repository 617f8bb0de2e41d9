"""Groups of near hosts for two-level aggregation, about equal in size (PHub thesis, section 4.2.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MissingToolError
from testbed.base.extras import install

RUNS = 20
Members = list[list[int]]
"""Hosts of each group: those of a group by number, groups by their first hosts."""


def group_count(hosts: int) -> int:
    """Return the square root of the number of hosts, to the nearest: a global master then sends and receives least
    (equation 4.2)."""
    return round(math.sqrt(hosts))


def require() -> None:
    """
    Raises:
        MissingToolError: the package of k-means is not installed.
    """
    if find_spec("k_means_constrained") is None:
        raise MissingToolError(
            "two_level(groups=probed) needs the Python package k-means-constrained, which is not installed",
            fix=install("plink"),
        )


def near(coordinates: NDArray[np.float64], count: int, elasticity: float, seed: int, runs: int = RUNS) -> Members:
    """Group hosts by their ``coordinates``, float64[n, dimensions], with k-means whose groups have a least size.

    The least size is the part of the hosts that a group of equal size has, divided by ``elasticity``, and rounded down.
    Of ``runs`` that begin at random (k-means++) the one with the most equal sizes is taken, of these the one with
    the least inertia, of these the first. (The thesis takes any of the most equal ones.)

    Raises:
        MissingToolError: as :func:`require`.
    """
    require()
    from k_means_constrained import KMeansConstrained  # only now: it is an extra, and takes a second

    least = int(len(coordinates) / (count * elasticity) + 1e-9)
    seeds = np.random.SeedSequence(seed).generate_state(runs)
    results = []
    for number, state in enumerate(seeds.tolist()):
        run = KMeansConstrained(count, size_min=least, n_init=1, random_state=state).fit(coordinates)
        sizes = np.bincount(run.labels_, minlength=count)
        results.append((int((sizes**2).sum()), float(run.inertia_), number, run.labels_))
    labels = min(results, key=lambda result: result[:3])[3]
    return in_order([np.flatnonzero(labels == group).tolist() for group in range(count)])


def balanced_random(hosts: int, count: int, seed: int) -> Members:
    """Group hosts by chance, in sizes that differ by one at most: the thesis's Balanced Random."""
    return in_order([part.tolist() for part in np.array_split(np.random.default_rng(seed).permutation(hosts), count)])


def by_number(hosts: int, count: int) -> Members:
    """Group hosts with neighbouring numbers, in sizes that differ by one at most."""
    return [part.tolist() for part in np.array_split(np.arange(hosts), count)]


def in_order(groups: Sequence[Sequence[int]]) -> Members:
    """Order the hosts of each group, and the groups that have any."""
    return sorted(sorted(group) for group in groups if group)
