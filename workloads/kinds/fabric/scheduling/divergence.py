"""How far the weights of the servers and of the replica may be apart (MLfabric, sections 3.3 and 5.3).

Both apply the same updates in the same order (eq. 2), and the replica is behind by some of them. The weights differ by
the sum of the changes that the replica has not made. A change h is momentum times the one before it plus an
update, so its norm is at most ``momentum * ||h before|| + ||u||``. The sum of these bounds is eq. 11: the scheduler
knows norms alone, and ``sqrt((a + b + ..)^2)`` is what remains of its squares and products. It holds for any lead:

    (gamma + .. + gamma^n) ||h0|| + sum over i of c_(n-i) ||u_i||,   c_j = 1 + gamma + .. + gamma^j
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]


def changes(history: float, norms: Sequence[float], momentum: float) -> list[float]:
    """Upper bounds of the norms of the changes of the weights that some updates make, one after another.

    Args:
        history: norm of the change before them, h0 of eq. 7, or an upper bound of it.
        norms: of the updates, in their order.
        momentum: gamma of eq. 2.
    """
    found = []
    for norm in norms:
        history = momentum * history + norm
        found.append(history)
    return found


def bound(history: float, norms: Sequence[float], momentum: float, replicated: int = 0) -> float:
    """Upper bound of the distance of two models: one has all of some updates, and the other the first of them (eq. 11).

    Args:
        history: as for :func:`changes`: of the last change before all of them.
        norms: of the updates, in the order in which both apply them.
        momentum: gamma of eq. 2.
        replicated: how many of them the second model has.
    """
    return fsum(changes(history, norms, momentum)[replicated:])


def exact(history: Vector, ahead: Sequence[Vector], behind: Sequence[Vector], momentum: float) -> float:
    """Distance of two models that were the same and then applied different updates, or others in their order (eq. 6).

    Args:
        history: the change of the weights before, h0 of eq. 5.
        ahead: the updates of the one, in their order.
        behind: those of the other.
        momentum: gamma of eq. 2.
    """
    return float(np.linalg.norm(_moved(history, ahead, momentum) - _moved(history, behind, momentum)))


def _moved(history: Vector, updates: Sequence[Vector], momentum: float) -> Vector:
    """How far a model is from where it was, by eq. 2."""
    weights = np.zeros_like(history)
    for update in updates:
        history = update + momentum * history
        weights = weights + history
    return weights
