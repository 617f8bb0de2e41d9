"""ProbeEmbed's decision: from probed distances to the groups of ``two_level`` (PHub thesis, section 4.2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.base.listing import counted
from testbed.topologies.call import Value
from testbed.workloads.locality.embedding import embed
from testbed.workloads.locality.groups import group_count, in_order, near

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
