"""Distances of weights, for tests: those that a lead bounds, and the exact ones by eq. 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.fabric.scheduling.divergence import Lead

Vector: TypeAlias = NDArray[np.float64]


def bound(history: float, norms: Sequence[float], momentum: float, replicated: int = 0) -> float:
    """Distance of a model with all of some updates from one with the first of them, at most (eq. 11)."""
    return lead(history, norms, momentum).divergence(replicated, len(norms))


def changes(history: float, norms: Sequence[float], momentum: float) -> list[float]:
    """Norms of the changes that updates make, one after another, at most."""
    made = lead(history, norms, momentum)
    return [made.divergence(at, at + 1) for at in range(len(norms))]


def lead(history: float, norms: Sequence[float], momentum: float) -> Lead:
    made = Lead(None, None, history, momentum)
    made.add(norms)
    return made


def exact(history: Vector, ahead: Sequence[Vector], behind: Sequence[Vector], momentum: float) -> float:
    """Distance of two models that were the same and then applied different updates, or others in their order (eq. 6).

    The last change of the weights before was ``history``, h0 of eq. 5.
    """
    return float(np.linalg.norm(moved(history, ahead, momentum) - moved(history, behind, momentum)))


def moved(history: Vector, updates: Sequence[Vector], momentum: float) -> Vector:
    """How far a model is from where it was, by eq. 2."""
    weights = np.zeros_like(history)
    for update in updates:
        history = update + momentum * history
        weights = weights + history
    return weights
