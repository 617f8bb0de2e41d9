"""What the distributed trial must equal: plain single-process SGD over the same global batches, or, of an asynchronous
scheme, the same updates in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workloads.job import Training
from workloads.models import model
from workloads.sync.ledger import Update
from workloads.training import Replica, descend, global_batch, initial_weights

Worlds = tuple[tuple[int, int], ...]
"""(first iteration, number of ranks) of each phase of a trial: ranks become fewer where nodes die."""

MOST_EVALUATED = 25
"""After so many iterations, evenly spaced, accuracy is found: one pass over the test set each."""


@dataclass(frozen=True)
class Reference:
    """What single-process SGD comes to.

    Attributes:
        weights: float32[parameters], in gradient order, read-only.
        accuracy: (iteration, share of the test set that is classified right after it), the last iteration included.
    """

    weights: NDArray[np.float32]
    accuracy: tuple[tuple[int, float], ...]


def reference_weights(
    training: Training, world: int | Worlds, mode: Literal["real", "paced", "none"] = "real"
) -> NDArray[np.float32]:
    """The weights of :func:`reference`."""
    return reference(training, world, mode).weights


@cache
def reference(training: Training, world: int | Worlds, mode: Literal["real", "paced", "none"] = "real") -> Reference:
    """Weights and accuracy after training on the global batches of ``world`` ranks.

    Where ranks die, an iteration's global batch begins where that of the one before ended.

    Compute mode ``none`` sends one gradient again and again and takes a single step with the last sum, so its
    reference is one iteration, of the ranks that made the last sum; when that step was taken says nothing about its
    other iterations, so it has no accuracies. All is kept for the next trial that has the same workload.

    Raises:
        SpecError: unknown model or data set.
    """
    replica = Replica(training)
    train = replica.data.train
    worlds: Worlds = ((0, world),) if isinstance(world, int) else world
    taken = 0
    count = steps(training, mode)
    evaluated = set() if mode == "none" else {round(i) for i in np.linspace(0, count - 1, min(count, MOST_EVALUATED))}
    found = []
    for iteration in range(count):
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
        if iteration in evaluated:
            found.append((iteration, replica.evaluate()[0]))
    replica.weights.flags.writeable = False
    return Reference(replica.weights, tuple(found))


def repeated(training: Training, world: int, order: Sequence[Update]) -> Reference:
    """Weights and accuracy after the updates of an asynchronous scheme, each computed on the version that it was.

    Accuracies are by rounds: as many updates, one after the other, as there are workers.

    Raises:
        SpecError: unknown model or data set.
    """
    replica = Replica(training)
    newest, velocity = replica.weights.copy(), np.zeros_like(replica.weights)
    versions = {0: newest.copy()}
    last_use = {update.version: at for at, update in enumerate(order)}
    rounds = len(order) // world
    evaluated = {round(i) for i in np.linspace(0, rounds - 1, min(rounds, MOST_EVALUATED))}
    found = []
    for at, update in enumerate(order):
        replica.weights[:] = versions[update.version]
        replica.compute(*replica.samples(update.iteration, update.rank, world))
        if last_use[update.version] == at:
            del versions[update.version]
        descend(training, newest, velocity, replica.gradient, world)
        if at + 1 in last_use:
            versions[at + 1] = newest.copy()
        iteration, left = divmod(at + 1, world)
        if not left and iteration - 1 in evaluated:
            replica.weights[:] = newest
            found.append((iteration - 1, replica.evaluate()[0]))
    return Reference(newest, tuple(found))


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
