"""What the distributed trial must equal: plain single-process SGD over the same global batches."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workloads.job import Training
from workloads.training import Replica, global_batch


@cache
def reference_weights(
    training: Training, world: int, mode: Literal["real", "paced", "none"] = "real"
) -> NDArray[np.float32]:
    """Weights float32[parameters], in gradient order, after training on the global batches of ``world`` ranks.

    Compute mode ``none`` sends one gradient again and again and takes a single step with the last sum, so its
    reference is one iteration. The array is read-only, for it is kept for the next trial that has the same workload.

    Raises:
        SpecError: unknown model or data set.
    """
    replica = Replica(training)
    train = replica.data.train
    for iteration in range(1 if mode == "none" else training.iterations):
        positions = train[global_batch(training.seed, iteration, world * training.batch, len(train))]
        total = np.zeros_like(replica.gradient)
        for part in np.split(positions, world):  # a large batch passes in parts: the mean gradient is the same
            replica.compute(*replica.data.select(part))
            total += replica.gradient
        replica.gradient[:] = total
        replica.step(world)
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


def relative_error(weights: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Norm of the difference over the norm of the reference."""
    return float(np.linalg.norm(weights - reference) / np.linalg.norm(reference))
