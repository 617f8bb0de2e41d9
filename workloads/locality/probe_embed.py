"""ProbeEmbed (PHub thesis, section 4.2.1): from probed distances to coordinates, and from these to groups of near
hosts, about equal in size.

An embedding has coordinates whose distances agree with probed ones, so that noise evens out. It minimises equation 4.1
of the PHub thesis, the sum over pairs of (d_ij^alpha + h_i + h_j - p_ij)^2, by Adam. The thesis gives neither Adam's
settings nor the number of dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MissingToolError, SchemeError
from testbed.base.extras import install
from testbed.base.listing import counted
from testbed.topologies.call import Value

Floats = NDArray[np.float64]

STARTS, STEPS = 5, 1000
RATE, DECAY_1, DECAY_2, EPSILON = 0.05, 0.9, 0.999, 1e-8
"""Settings of Adam: the learning rate; the others are those of Kingma and Ba 2015."""
_SPREAD = 0.5
"""Standard deviation of the first coordinates; the mean probed distance is 1."""
_LEAST = 1e-6
"""Distance below which hosts are at one place, where the loss has no gradient."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Places of n hosts, in units of the mean probed distance (to the power of 1 / alpha).

    Attributes:
        coordinates: float64[n, dimensions].
        startup: float64[n], each host's fixed part of its distances; zeros unless asked for.
        loss: value of equation 4.1, of distances that were divided by their mean.
    """

    coordinates: Floats
    startup: Floats
    loss: float

    @property
    def distances(self) -> Floats:
        """Euclidean distances between the hosts, float64[n, n]."""
        return lengths(self.coordinates)


def embed(
    distances: Floats, *, alpha: float = 1.0, dimensions: int = 2, startup: bool = False, seed: int = 0
) -> Embedding:
    """Return the best embedding of ``STARTS`` random starts.

    Args:
        distances: float64[n, n], symmetric; NaN where a pair did not measure any. The diagonal does not count. At least
            one distance is above 0.
        alpha: 1 fits distances as they are, 2 their square roots, which draws near hosts together.
        startup: whether each host has a fixed part of its distances, h >= 0.
    """
    hosts = len(distances)
    known = ~np.isnan(distances)
    np.fill_diagonal(known, False)
    probed = np.where(known, distances, 0.0) / distances[known].mean()
    random = np.random.default_rng(seed)
    places = _SPREAD * random.standard_normal((STARTS, hosts, dimensions))
    fixed = np.zeros((STARTS, hosts))
    moves = [_Adam(places.shape), _Adam(fixed.shape)]
    for step in range(1, STEPS + 1):
        apart = np.maximum(lengths(places), _LEAST)
        wrong = known * (apart**alpha + fixed[:, :, None] + fixed[:, None, :] - probed)
        pull = 2 * alpha * wrong * apart ** (alpha - 2)
        places -= moves[0].move(pull.sum(axis=2, keepdims=True) * places - pull @ places, step)
        if startup:
            fixed = np.maximum(0.0, fixed - moves[1].move(2 * wrong.sum(axis=2), step))
    losses = [loss(probed, places[start], fixed[start], known, alpha) for start in range(STARTS)]
    best = int(np.argmin(losses))
    return Embedding(places[best], fixed[best], losses[best])


def loss(probed: Floats, places: Floats, fixed: Floats, known: NDArray[np.bool_], alpha: float) -> float:
    """Compute equation 4.1 over the ``known`` pairs: probed and known are [n, n], places [n, dimensions], fixed [n]."""
    wrong = lengths(places) ** alpha + fixed[:, None] + fixed[None, :] - probed
    return float(np.sum(wrong[known] ** 2) / 2)


def lengths(places: Floats) -> Floats:
    """Compute the Euclidean distances between places [..., n, dimensions]: [..., n, n]."""
    squares = (places**2).sum(axis=-1)
    apart = squares[..., :, None] + squares[..., None, :] - 2 * places @ places.swapaxes(-1, -2)
    result: Floats = np.sqrt(np.maximum(apart, 0.0))
    return result


class _Adam:
    """Steps of Adam for one array."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._first, self._second = np.zeros(shape), np.zeros(shape)

    def move(self, gradient: Floats, step: int) -> Floats:
        """Return the amount to subtract in the ``step``-th step, counted from 1."""
        self._first += (1 - DECAY_1) * (gradient - self._first)
        self._second += (1 - DECAY_2) * (gradient**2 - self._second)
        root = np.sqrt(self._second / (1 - DECAY_2**step))
        result: Floats = RATE * self._first / (1 - DECAY_1**step) / (root + EPSILON)
        return result


RUNS = 20
Members = list[list[int]]
"""Hosts of each group: those of a group by number, groups by their first hosts."""


def group_count(hosts: int) -> int:
    """Return the root of the number of hosts, with which a global master sends and receives least (equation 4.2)."""
    return round(math.sqrt(hosts))


def require() -> None:
    """Raise MissingToolError if the package of k-means is not installed."""
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


_BOUNDS = {
    "alpha": (1, 2, "1, for distances as probed, to 2"),
    "elasticity": (1, 2, "1, for groups of one size, to 2"),
    "dimensions": (1, 16, "1 to 16"),
    "draw": (0, 2**32 - 1, "0 or more"),
}
"""Least and largest value of settings, and the words for them."""


@dataclass(frozen=True)
class Grouping:
    """Settings of ``two_level`` by which groups are found.

    Attributes:
        probe: measure of distance, ``latency`` or ``bandwidth``.
        k: number of groups; 0 for :func:`.group_count`.
        alpha, dimensions, startup: as :func:`.embed` has them.
        elasticity: as :func:`.near` has it.
        draw: seed of random groups.
    """

    probe: str = "latency"
    k: int = 0
    alpha: float = 1.0
    elasticity: float = 1.5
    dimensions: int = 2
    startup: bool = False
    draw: int = 1

    def count(self, hosts: int) -> int:
        """Return the number of groups of so many hosts.

        Raises:
            SchemeError: groups would have less than two hosts each, on average; or another setting is out of bounds.
        """
        for name, (least, most, words) in _BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                raise SchemeError(f"two_level: {name} is {getattr(self, name):g}", fix=f"give it {words}")
        usual, most = group_count(hosts), max(2, hosts // 2)
        if self.k and not 2 <= self.k <= most:
            raise SchemeError(
                f"two_level has {counted(self.k, 'group')} for {hosts} hosts",
                fix=f"give k 2 to {most}, or leave it out for {usual}",
            )
        return self.k or usual


def decide(
    names: Sequence[str], distances: NDArray[np.float64], parameters: Mapping[str, Value], seed: int
) -> dict[str, Value]:
    """Return plain parameters for those of ``two_level(groups=probed,...)``: groups by hosts' names, and the rest.

    Hosts are taken in an order that their distances give. So neither their names nor their numbers count, if no two
    hosts have the same distances to all others.

    Args:
        distances: float64[n, n], symmetric; NaN where a pair did not answer.
        parameters: as they were asked for; those left out have their defaults.
        seed: of the embedding and of k-means.

    Raises:
        SchemeError: a parameter is out of bounds.
        MissingToolError: as :func:`.near`.
    """
    settings = {setting.name for setting in fields(Grouping)}
    asked = Grouping(**{name: value for name, value in parameters.items() if name in settings})  # type: ignore[arg-type]
    count = asked.count(len(names))
    order = np.lexsort(np.sort(distances, axis=1).T[::-1])
    embedded = embed(
        distances[np.ix_(order, order)],
        alpha=asked.alpha,
        dimensions=asked.dimensions,
        startup=asked.startup,
        seed=seed,
    )
    groups = near(embedded.coordinates, count, asked.elasticity, seed)
    ordered = in_order([order[group].tolist() for group in groups])
    kept = {name: value for name, value in parameters.items() if name not in settings}
    return {**kept, "groups": tuple(tuple(names[host] for host in group) for group in ordered)}
