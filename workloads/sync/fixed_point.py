"""The gradient in fixed point, for switches add integers only: to int32 and back in place, added without wrapping.

A worker multiplies its gradient by a scale and rounds it to int32, in the same memory; integers travel and are added,
which is exact; the sum is divided by the scale. So the sum of N workers is off by N/2 steps of 1/scale at most. Where a
value or a sum does not fit 32 bits the trial fails and says so.

ATP and Rina have one scale for all (10^6). SwitchML takes for each block INT32_MAX / (N 2^e), where 2^e is above the
largest element that any worker has in that block; a block is a chunk here, and e is agreed on before with the forest's
own trees, where inner nodes take the maximum instead of the sum.

Source: Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation" (SwitchML), NSDI 2021; Lao et
al., "ATP: In-network Aggregation for Multi-tenant Learning", NSDI 2021; Rina, section V.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync.forest import FixedPoint

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]

LOWEST = -90
"""Least exponent: blocks whose elements are all below 2^-90 count as zeros, and scales stay finite."""
HIGHEST = 128
"""Greatest exponent, that of the largest float32."""
_HEADROOM = 1 - 2.0**-20
"""Share of INT32_MAX that is used, so that sums of up to 1,024 numbers that were rounded up still fit."""
_MOST = 2.0**31
_U = 2.0**-24


def furthest(scale: float, world: int, largest: float) -> float:
    """Return by how much the sum of ``world`` values, none above ``largest``, is off at most: half a step each; the
    product of each is rounded to float32, and so is the sum when it becomes one, and when it is divided."""
    return world * (0.5 / scale + 3 * _U * largest)


def least_scale(world: int, largest: float, allowed: float) -> float:
    """Return the least power of ten that keeps :func:`furthest` below ``allowed``."""
    return float(10.0 ** math.ceil(math.log10(0.5 / (allowed / world - 3 * _U * largest))))


def exponent(floats: Floats, name: str) -> int:
    """Return the least e such that every element is below 2^e in magnitude, but at least :data:`LOWEST`.

    Raises:
        WorkerError: an element is no number.
    """
    largest = _largest(floats)
    if not math.isfinite(largest):
        raise WorkerError(f"{name}: an element of the gradient is no number", fix="take a lower learning rate")
    return max(LOWEST, math.frexp(largest)[1]) if largest else LOWEST


def _largest(floats: Floats) -> float:
    """Return the largest magnitude; NaN if there is one. Two passes that read are faster than one that writes."""
    return max(float(floats.max(initial=0.0)), -float(floats.min(initial=0.0)))


class Scales:
    """The scale of each chunk of the gradient, for one node; ``parts`` are the chunks' memory, in which they become
    integers, and floats again."""

    def __init__(self, fixed: FixedPoint, world: int, parts: Sequence[Integers], name: str) -> None:
        self._world = world
        self._parts = parts
        self._name = name
        self._scale = [fixed.scale or 0.0] * len(parts)
        self._spare = np.empty(max(map(len, parts), default=0), np.int32)
        """Memory for results in between. New memory for each chunk is slow: the kernel fills it with zeros."""

    def encode(self, k: int) -> None:
        """Turn chunk k into int32 steps of 1/scale.

        Raises:
            WorkerError: a number does not fit 32 bits, or is none.
        """
        part, scale = self._parts[k], self._scale[k]
        floats = part.view(np.float32)
        steps = np.multiply(floats, np.float32(scale), out=self._spare[: len(part)].view(np.float32))
        np.rint(steps, out=steps)
        if not _largest(steps) < _MOST:
            at = int(np.argmax(np.abs(steps)))
            raise WorkerError(
                f"{self._name}: the gradient's element {floats[at]:.4g} times the scale {scale:.4g} does not fit 32 "
                "bits",
                fix="give the scheme a smaller scale",
            )
        np.copyto(part, steps, casting="unsafe")

    def decode(self, k: int) -> None:
        """Turn chunk k back into floats."""
        part = self._parts[k]
        steps = self._spare[: len(part)].view(np.float32)
        np.copyto(steps, part, casting="unsafe")
        np.divide(steps, np.float32(self._scale[k]), out=part.view(np.float32))

    def add(self, k: int, at: int, terms: Integers) -> None:
        """Add ``terms`` to chunk k from its number ``at`` on.

        Raises:
            OverflowError: a sum does not fit 32 bits.
        """
        ours = self._parts[k][at : at + len(terms)]
        total = np.add(ours, terms, out=self._spare[: len(terms)])
        if (total < ours).tobytes() != (terms < 0).tobytes():  # a sum that does not fit wraps to the other side of ours
            raise OverflowError
        ours[:] = total

    def propose(self, ks: Sequence[int], into: Integers) -> None:
        """Write these chunks' own exponents.

        Raises:
            WorkerError: as :func:`exponent`.
        """
        into[:] = [exponent(self._parts[k].view(np.float32), self._name) for k in ks]

    def agree(self, ks: Sequence[int], exponents: Integers) -> None:
        """Take the largest exponents that any worker has in these chunks.

        Raises:
            WorkerError: one is none of a float32.
        """
        for k, e in zip(ks, exponents.tolist(), strict=True):
            if not LOWEST <= e <= HIGHEST:
                raise WorkerError(
                    f"{self._name}: chunk {k} got the exponent {e} from a neighbour, allowed are {LOWEST} to {HIGHEST}",
                    fix="give every node the same forest, model and chunk size",
                )
            self._scale[k] = _MOST * _HEADROOM / (self._world * 2.0**e)


def sum_error(fixed: FixedPoint, world: int, norms: float, floats: int, chunk_bytes: int) -> float:
    """Return the norm of a sum's error that integers explain, as a share of the ``norms`` of its terms, all added.

    With one scale each term is off by half a step at most. With block exponents a step is at most N 2^-30 of a chunk's
    largest element, which is no larger than its norm.
    """
    if fixed.scale is not None:
        return world * math.sqrt(floats) / (2 * fixed.scale) / norms if norms else 0.0
    return world**2 * 2.0**-31 * math.sqrt(chunk_bytes // 4)
