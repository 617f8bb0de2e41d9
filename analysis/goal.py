"""Time to accuracy: when each training had reached what all of them reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Curve: TypeAlias = Sequence[tuple[float, float]]
"""(time in s, accuracy as a share of 1) after each iteration that was tested; not empty."""


def goal(curves: Iterable[Curve]) -> float | None:
    """The highest accuracy that all of them reached; None without any."""
    return min((max(accuracy for _, accuracy in curve) for curve in curves), default=None)


def reached_s(curve: Curve, accuracy: float) -> float:
    """When ``curve`` was first as high as ``accuracy``, which it reaches."""
    return next(time_s for time_s, known in curve if known >= accuracy)
