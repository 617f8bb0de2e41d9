"""Rounds in which all pairs of hosts probe each other, no host twice in a round (PHub thesis, section 4.2.1); distances
between hosts from their probes, whether enough pairs have one, and how well distances tell who is near whom.

Physical affinity inference accuracy, PAIA (section 6.2.5): a host compares two others if it shares more of its place,
such as (row, rack), with one of them than with the other. PAIA is the share of such triplets in which the host that
shares more has the smaller distance.
"""

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


Place = Sequence[int]
"""Place of a host, the largest part first: its row, and its rack in that row."""


def comparable(places: Sequence[Place]) -> int:
    """Count the triplets that PAIA is about."""
    return int(np.count_nonzero(_farther(_shared(places))))


def paia(places: Sequence[Place], distances: NDArray[np.float64]) -> float:
    """Return the share of comparable triplets that ``distances``, float64[n, n], tell right; NaN if there are none.
    Equal distances tell nothing, nor does a pair without a distance (NaN)."""
    compared, right = _compared(places, distances)
    return float(right.sum() / compared.sum()) if compared.any() else float("nan")


def by_observer(places: Sequence[Place], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share for each host alone, as the one that compares two others: float64[n]."""
    compared, right = _compared(places, distances)
    return right / np.where(compared > 0, compared, np.nan)


def _compared(places: Sequence[Place], distances: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the triplets in which each host compares, and those that are told right, int64[n] each."""
    compared = _farther(_shared(places))
    right = compared & _farther(-distances)
    return compared.sum(axis=(1, 2), dtype=np.int64), right.sum(axis=(1, 2), dtype=np.int64)


def _shared(places: Sequence[Place]) -> NDArray[np.float64]:
    """Return the length of the common beginning of each two places, float64[n, n]; NaN on the diagonal."""
    at = np.array(places)
    shared: NDArray[np.float64] = np.cumprod(at[:, None, :] == at[None, :, :], axis=2).sum(axis=2).astype(np.float64)
    np.fill_diagonal(shared, np.nan)
    return shared


def _farther(nearness: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return bool[c, a, b]: whether a is farther than b from c, which is neither."""
    farther: NDArray[np.bool_] = nearness[:, :, None] < nearness[:, None, :]
    return farther
