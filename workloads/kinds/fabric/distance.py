"""Distance of two processes' weights, without either sending them: each tells a few numbers of its own.

Random signs s, the same for both, make weights w the number <s, w>. The difference of two such numbers has the distance
of the weights as its root mean square. Source: Alon, Matias, Szegedy, STOC 1996, as
:mod:`testbed.workloads.learning.sketch`, which needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import numpy as np
from numpy.typing import NDArray

LINES = 16
"""Numbers of each process. The distance that they tell is within a factor of 2 of the true one, nearly always."""
_SEED = 20261123
_BLOCK = 1 << 16
"""Weights that are worked on together."""


def lines(weights: NDArray[np.float32]) -> list[float]:
    """Return the norm of weights, then numbers that show their distance from others."""
    random = np.random.default_rng(_SEED)
    found, square = np.zeros(LINES), 0.0
    for start in range(0, len(weights), _BLOCK):
        block = weights[start : start + _BLOCK].astype(np.float64)
        signs = random.integers(0, 2, (LINES, len(block)), np.int8) * np.int8(2) - np.int8(1)
        found += signs.astype(np.float64) @ block
        square += float(block @ block)
    return [sqrt(square), *found.tolist()]


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the distance of two processes' weights, as a share of the norm of the first one's; 0 if they are the
    same."""
    distance = sqrt(fsum((a - b) ** 2 for a, b in zip(one[1:], other[1:], strict=True)) / LINES)
    return distance / one[0] if distance else 0.0
