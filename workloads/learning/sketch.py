"""A gradient in a few numbers that can be added like gradients, so that every sum of a trial that trains is checked.

Problem: trained weights tell little about sums. Where a unit's input is nearly 0 one rounding decides whether it
passes, so two right orders of summation lead to weights that differ by 1e-6 of what training changed, or by 5e-3
(docs/decisions/tolerance-of-weights.md). Sums that are 0.05 % too small can hide in that.

Chosen: random factors s, the same on every worker, make a gradient g the number <s, g>. These add: <s, sum> is the sum
of all workers' <s, g>, up to the rounding of that one sum, whatever the weights are by then. A wrong sum is found
unless its error is orthogonal to all :data:`LINES` vectors of factors. Each bucket is cut into rows of :data:`ROW`
floats. One small matrix product makes all rows' numbers, and factors of the rows' own add these up. The squares of the
rows' numbers come to the gradient's norm besides.

A factor has a random sign and a random size. With signs alone, two errors that cancel, +e in one element and -e in
another, are missed if both elements have the same sign in every line: one pair in 16 with four lines, however large e
is. With sizes there is no such pair; of a million random ones, the least that is left of e is 0.14 e
(``benchmarks/sketch.py``).

A gradient is sketched when it is complete, before it may leave; rank 0's sum at the beginning of the next iteration,
before it is overwritten. So neither is in a synchronisation, nor, at a pace, in the computing time. LeNet-5's 3,274,634
floats take 1.2 to 4 ms.

Rejected: a copy of some iterations' sums, which the referee repeats (26 MB to copy, and the other iterations go
unseen); a sum of elements without signs (does not see elements that change places).

Rejected, too: eight lines of signs (one pair in 256 is missed at any size, at the same cost).

Source: Alon, Matias, Szegedy, "The Space Complexity of Approximating the Frequency Moments", STOC 1996 (signs).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

LINES = 8
"""Independent numbers of a sketch. Four take 0.96 to 0.98 of the time, and sixteen 1.1 to 1.3."""
ROW = 256
"""Floats that are added in float32 before float64 takes over. The sketch's own rounding is then 1 to 5 times 2^-24 of
the gradient's norm, as a sum's is."""
SIZES = 0.5, 1.5
"""Range of the factors' sizes, before they are scaled so that their mean square is 1."""
_SEED = 20261122
_DIGITS = 9
"""Significant digits that are kept: rounding is in the seventh."""


class Sketch:
    """Sketch of one buffer, bucket by bucket."""

    def __init__(self, gradient: NDArray[np.float32], buckets: Sequence[tuple[int, int]]) -> None:
        """Set up; ``buckets`` are the spans of ``gradient`` that become complete one after the other."""
        flat = torch.from_numpy(gradient)
        random = np.random.default_rng(_SEED)
        self._factors = torch.from_numpy(factors(random, ROW).astype(np.float32))
        self._rows: list[list[torch.Tensor]] = []
        self._row_factors: list[torch.Tensor] = []
        for start, stop in buckets:
            whole = (stop - start) // ROW
            full, rest = flat[start : start + whole * ROW].view(whole, ROW), flat[start + whole * ROW : stop]
            self._rows.append([full, rest.view(1, len(rest))])
            self._row_factors.append(torch.from_numpy(factors(random, whole + 1)))
        self.begin()

    def begin(self) -> None:
        """Forget the buckets that were added."""
        self._lines = torch.zeros(LINES, dtype=torch.float64)
        self._square = 0.0

    def add(self, bucket: int) -> None:
        """Add a bucket as it is now."""
        rows = torch.cat([part @ self._factors[: part.shape[1]] for part in self._rows[bucket]]).double()
        self._lines += (self._row_factors[bucket] * rows).sum(0)
        self._square += float((rows * rows).sum()) / LINES

    def values(self) -> list[float]:
        """Return the norm of the buckets that were added, nearly, then the sketch."""
        return [float(f"{value:.{_DIGITS}g}") for value in (self._square**0.5, *self._lines.tolist())]

    def whole(self) -> list[float]:
        """Return :meth:`values` of all buckets as they are now."""
        self.begin()
        for bucket in range(len(self._rows)):
            self.add(bucket)
        return self.values()


class PartSketch:
    """Sketch of some spans of a gradient, which adds to those of the other spans."""

    def __init__(self, buckets: Sequence[tuple[int, int]]) -> None:
        """Set up; ``buckets`` are as for :class:`Sketch`."""
        random = np.random.default_rng(_SEED)
        self._factors = factors(random, ROW).astype(np.float32)
        self._buckets = [(start, stop, factors(random, (stop - start) // ROW + 1)) for start, stop in buckets]
        self._lines = np.zeros(LINES)

    def add(self, start: int, values: NDArray[np.float32]) -> None:
        """Add the span that begins at ``start``."""
        for first, stop, row_factors in self._buckets:
            begin, end = max(start, first), min(start + len(values), stop)
            if begin >= end:
                continue
            row, column = divmod(begin - first, ROW)
            rows = -(-(column + end - begin) // ROW)
            padded = np.zeros(rows * ROW, np.float32)
            padded[column : column + end - begin] = values[begin - start : end - start]
            lines = (padded.reshape(rows, ROW) @ self._factors).astype(np.float64)
            self._lines += (row_factors[row : row + rows] * lines).sum(0)

    def take(self) -> list[float]:
        """Return the sketch of the spans that were added, behind a 0 for their norm, and forget them."""
        lines, self._lines = self._lines, np.zeros(LINES)
        return [0.0, *(float(f"{value:.{_DIGITS}g}") for value in lines)]


def factors(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw random factors, float64[count, LINES], whose mean square is 1."""
    low, high = SIZES
    mean_square = (low * low + low * high + high * high) / 3
    sizes = random.uniform(low, high, (count, LINES)) / np.sqrt(mean_square)
    made: NDArray[np.float64] = random.choice((-1.0, 1.0), (count, LINES)) * sizes
    return made
