"""Simulated probes of a cloud: how well the distances tell who is near whom, as probed and after the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.locality.distances import Place, paia
from testbed.workloads.locality.probe_embed import decide, embed, group_count, near

BASE_MS = (0.15, 2.15, 4.15)
"""Round trips within a rack, within a row, and beyond."""


@dataclass(frozen=True)
class Cloud:
    """Rows of racks, and the noise of its probes: that of each pair is exponential, with this mean.

    Attributes:
        outliers: pairs, chosen by chance, whose probes take ``outlier_ms`` longer.
    """

    rows: int
    racks: int
    hosts_per_rack: int
    noise_ms: float
    outliers: int = 0
    outlier_ms: float = 50.0

    @property
    def places(self) -> list[Place]:
        """Row and rack of each host."""
        sizes = (self.rows, self.racks, self.hosts_per_rack)
        return [(row, rack) for row, rack, _ in product(*map(range, sizes))]

    def probed_ms(self, seed: int) -> NDArray[np.float64]:
        """Return round trips between its n hosts, float64[n, n]."""
        row, rack = np.array(self.places).T
        near = np.add(row[:, None] == row, (row[:, None] == row) & (rack[:, None] == rack), dtype=np.int64)
        random = np.random.default_rng(seed)
        noise = random.exponential(self.noise_ms, near.shape)
        above = np.argwhere(np.triu(np.ones_like(near), 1))
        for pair in random.choice(above, self.outliers, replace=False):
            noise[tuple(pair)] += self.outlier_ms
        one_way: NDArray[np.float64] = np.triu(np.array(BASE_MS)[2 - near] + noise, 1)
        return one_way + one_way.T


def points(cloud: Cloud, alpha: float, dimensions: int, draws: int) -> tuple[float, float]:
    """Return the mean PAIA over ``draws`` of probes, in points of 100: of distances as probed, and as embedded."""
    scores = []
    for seed in range(draws):
        probed = cloud.probed_ms(seed)
        embedded = embed(probed, alpha=alpha, dimensions=dimensions, seed=seed).distances
        scores.append((100 * paia(cloud.places, probed), 100 * paia(cloud.places, embedded)))
    raw, better = np.mean(scores, axis=0).tolist()
    return raw, better


def groups_are_racks(cloud: Cloud, alpha: float, seeds: int) -> int:
    """Count the seeds, of 0 to ``seeds`` - 1, with which groups are the racks; each is of the probes, too.

    Raises:
        MissingToolError: the package of k-means is not installed.
    """
    names = [str(host) for host in range(len(cloud.places))]
    racks = {
        frozenset(name for name, at in zip(names, cloud.places, strict=True) if at == rack) for rack in cloud.places
    }
    right = 0
    for seed in range(seeds):
        groups = decide(names, cloud.probed_ms(seed), {"alpha": float(alpha)}, seed)["groups"]
        right += {frozenset(group) for group in groups} == racks  # type: ignore[union-attr, arg-type]
    return right


def shared_information(cloud: Cloud, alpha: float, groupings: int) -> float:
    """Return how much information ``groupings`` of the same embedding share: adjusted mutual information, the mean of
    all pairs. Each grouping is the only run of k-means of another seed.

    Raises:
        MissingToolError: as :func:`groups_are_racks`.
    """
    from sklearn.metrics import adjusted_mutual_info_score  # a second

    embedded, hosts = embed(cloud.probed_ms(0), alpha=alpha).coordinates, len(cloud.places)
    labels = np.empty((groupings, hosts), dtype=np.int64)
    for seed in range(groupings):
        for number, group in enumerate(near(embedded, group_count(hosts), 1.5, seed, runs=1)):
            labels[seed, group] = number
    return float(np.mean([adjusted_mutual_info_score(a, b) for a, b in combinations(labels, 2)]))
