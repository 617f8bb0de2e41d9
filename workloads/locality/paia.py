"""Physical affinity inference accuracy, PAIA (PHub thesis, section 6.2.5): how well distances tell who is near whom.

A host compares two others if it shares more of its place, such as (row, rack), with one of them than with the other.
PAIA is the share of such triplets in which the host that shares more has the smaller distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
