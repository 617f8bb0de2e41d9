"""Longest first: the 4/3 approximation by which items of unlike sizes are spread evenly (Graham 1969)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def longest_first(sizes: Sequence[int], count: int) -> NDArray[np.int64]:
    """Return for each size the bin, of ``count``: the largest first, to the bin that has least so far."""
    bins = [(0, number) for number in range(count)]
    at = np.empty(len(sizes), dtype=np.int64)
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        load, number = bins[0]
        at[item] = number
        heapq.heapreplace(bins, (load + sizes[item], number))
    return at
