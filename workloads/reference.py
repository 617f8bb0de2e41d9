"""What the distributed trial must equal: plain single-process SGD over the same global batches."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workloads.job import Training
from workloads.models import model
from workloads.training import Replica, global_batch, initial_weights

Worlds = tuple[tuple[int, int], ...]
"""(first iteration, number of ranks) of each phase of a trial: ranks become fewer where nodes die."""


@cache
def reference_weights(
    training: Training, world: int | Worlds, mode: Literal["real", "paced", "none"] = "real"
) -> NDArray[np.float32]:
    """Weights float32[parameters], in gradient order, after training on the global batches of ``world`` ranks.

    Where ranks die, an iteration's global batch begins where that of the one before ended.

    Compute mode ``none`` sends one gradient again and again and takes a single step with the last sum, so its
    reference is one iteration, of the ranks that made the last sum. The array is read-only, for it is kept for the next
    trial that has the same workload.

    Raises:
        SpecError: unknown model or data set.
    """
    replica = Replica(training)
    train = replica.data.train
    worlds: Worlds = ((0, world),) if isinstance(world, int) else world
    taken = 0
    for iteration in range(steps(training, mode)):
        ranks = worlds[-1][1] if mode == "none" else next(n for first, n in reversed(worlds) if first <= iteration)
        size = ranks * training.batch
        positions = train[global_batch(training.seed, iteration, size, len(train), shift=taken - iteration * size)]
        taken += size
        total = np.zeros_like(replica.gradient)
        for part in np.split(positions, ranks):  # a large batch passes in parts: the mean gradient is the same
            replica.compute(*replica.data.select(part))
            total += replica.gradient
        replica.gradient[:] = total
        replica.step(ranks)
    replica.weights.flags.writeable = False
    return replica.weights


def accuracy(training: Training, weights: NDArray[np.float32]) -> tuple[float, float]:
    """Share of the test images that ``weights`` classify right, and the mean loss on them.

    Raises:
        SpecError: unknown model or data set.
        ValueError: ``weights`` has another length than the model.
    """
    replica = Replica(training)
    replica.weights[:] = weights
    return replica.evaluate()


def steps(training: Training, mode: Literal["real", "paced", "none"]) -> int:
    """How many optimiser steps a trial takes: one an iteration, but a single one at the end in mode ``none``."""
    return 1 if mode == "none" else training.iterations


def rounding(reference: NDArray[np.float32], training: Training, steps: int, step: float) -> float:
    """Norm of what roundings explain: of the weights to float32 in each of ``steps``, and of gradients to ``step``.

    A gradient that travels as integers is off by at most half a ``step`` (0 for floats) an element, either way, and
    momentum makes 1/(1 - momentum) of it.
    """
    of_weights = np.finfo(np.float32).epsneg * np.linalg.norm(reference)
    of_gradients = training.learning_rate / (1 - training.momentum) * step / 2 * np.sqrt(len(reference))
    return float(np.sqrt(steps) * (of_weights + of_gradients))


def training_error(
    weights: NDArray[np.float32], reference: NDArray[np.float32], training: Training, explained: float
) -> float:
    """Norm of the difference over the norm of what training changed: from the initial weights to the reference.

    Initial weights are far larger than a short training's changes. Relative to the weights themselves, sums that lack
    a whole worker are off by 3e-5 at a learning rate of 5e-4, and by less at a lower one; relative to what training
    changed they are off by 1e-2 at any. The norm that :func:`rounding` has ``explained`` is not counted.
    """
    start = initial_weights(model(training.model), training.seed)
    excess = max(float(np.linalg.norm(weights - reference)) - explained, 0.0)
    return excess / float(np.linalg.norm(reference - start)) if excess else 0.0


def relative_error(weights: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Norm of the difference over the norm of the reference."""
    return float(np.linalg.norm(weights - reference) / np.linalg.norm(reference))
