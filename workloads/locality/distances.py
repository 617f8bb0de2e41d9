"""Rounds in which all pairs of hosts probe each other, no host twice in a round (PHub thesis, section 4.2.1);
distances between hosts from their probes, and whether enough pairs have one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TrialError
from testbed.base.listing import shortened

Pair = tuple[int, int]
"""Two hosts, the lower number first."""


def rounds(hosts: int) -> list[list[Pair]]:
    """List the pairs of each round: every pair of ``hosts`` hosts once, in as few rounds as there can be.

    The circle method: one host stays, the others move on by one place from round to round, and hosts at opposite places
    meet. There are n - 1 rounds of n / 2 pairs; for odd n, n rounds, in each of which another host rests.
    """
    around = hosts - 1 + hosts % 2  # for odd n, a host that is not there stays
    if around < 1:
        return []
    schedule = []
    for turn in range(around):
        met = [(turn, around)] * (around < hosts)
        met += [((turn + step) % around, (turn - step) % around) for step in range(1, (around + 1) // 2)]
        schedule.append(sorted((min(pair), max(pair)) for pair in met))
    return schedule


MOST_MISSING = 0.1
"""Largest share of pairs that may be without a distance."""


def symmetric(hosts: int, measured: Mapping[Pair, float | None]) -> NDArray[np.float64]:
    """Return the distances, float64[n, n], of which each pair has the larger of its two directions.

    Args:
        measured: by (from, to), a distance above 0; None, or left out, where there was no answer.

    A pair has NaN where neither direction was answered, and the diagonal is 0.
    """
    directed = np.full((hosts, hosts), np.nan)
    for pair, distance in measured.items():
        directed[pair] = np.nan if distance is None else distance
    larger: NDArray[np.float64] = np.fmax(directed, directed.T)
    np.fill_diagonal(larger, 0.0)
    return larger


def by_bandwidth(rates_bps: Mapping[Pair, float | None]) -> dict[Pair, float | None]:
    """Return the distance of each direction: the inverse of its rate (s/bit); None where nothing arrived."""
    return {pair: 1 / rate_bps if rate_bps and rate_bps > 0 else None for pair, rate_bps in rates_bps.items()}


def missing(distances: NDArray[np.float64]) -> list[Pair]:
    """List the pairs without a distance."""
    return [(a, b) for a, b in np.argwhere(np.isnan(distances)).tolist() if a < b]


def check_complete(names: Sequence[str], distances: NDArray[np.float64]) -> None:
    """Raise TrialError if a host has no distance to any other, or more than ``MOST_MISSING`` of the pairs have none."""
    lonely = [name for name, row in zip(names, np.isnan(distances), strict=True) if row.sum() == len(names) - 1 > 0]
    if lonely:
        raise TrialError(
            f"no probe reached {shortened(lonely, 6)}, and none came from there",
            fix="see why its process did not answer, and whether the network leads there",
        )
    pairs = missing(distances)
    if len(pairs) > MOST_MISSING * math.comb(len(names), 2):
        said = shortened([f"{names[a]} and {names[b]}" for a, b in pairs], 6)
        raise TrialError(
            f"{len(pairs)} of {math.comb(len(names), 2)} pairs of hosts did not answer each other's probes: {said}",
            fix=f"at most {MOST_MISSING:.0%} may be missing; see what the network loses",
        )
