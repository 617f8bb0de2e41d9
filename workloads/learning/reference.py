"""Reference for a distributed trial: plain single-process SGD over the same global batches, or, for an asynchronous
scheme, the same updates in the same order; and how far rounding may lead away from it.

Gradients that travel in fixed point are rounded here as they are there. Sums of integers are exact in any order, so a
trial with one scale comes to the very same bits.

How far is right is found by trying (:func:`allowed`): the same training once more, with every sum a little off. Where
training is smooth that leads as little away; where one rounding decides whether a unit passes, both lead far away. So
the tolerance is what this model, these data, this learning rate and this number of steps make of it. What was seen is
in docs/decisions/tolerance-of-weights.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from testbed.workloads.job import Training
from testbed.workloads.learning.parts import Parts, versions
from testbed.workloads.learning.training import Floats, Replica, descend, descend_together, first_weights, global_batch
from testbed.workloads.learning.updates import Step, Update, steps

Mode = Literal["real", "paced", "none"]
Worlds = tuple[tuple[int, int], ...]
"""(first iteration, number of ranks) of each phase of a trial: ranks become fewer where nodes die."""

MOST_EVALUATED = 25
"""Largest number of iterations, evenly spaced, after each of which the accuracy is computed."""
NOISE = 1e-5
"""Error of the sums in the training that finds the tolerance, as a share of their terms. Other orders of summation are
off by 1e-7, gradients of other kernels (AVX2, SSE, without oneDNN) by 5e-7. At 1e-6, one of three such trainings of
ResNet-8 went as far as three of 24 orders did; at 1e-5, each does."""
MOST_DRAWS = 8
"""Largest number of such trainings, which are repeated as long as a trial is further off than those so far explain.
Where one rounding decides whether a unit passes, one of them may come to the reference's side by chance: LeNet-5 with a
learning rate of 0.01, 10 iterations of 4 workers, was led 1.3e-5 away by one and 1.5e-3 by each of nine others, and a
right trial 9e-5."""
MARGIN = 3.0
"""Factor from the distance of such a training to the allowed distance. The largest distances seen, in units of that:
LeNet-5, 14 iterations, 0.8 over 12 orders and 0.9 with other kernels; BERT-Tiny, 20 iterations, 0.07; ResNet-8, 40
iterations, 1.3 over 24 orders and 1.5 with other kernels."""
COARSEST = 1e-3
"""Largest norm of the change that fixed point makes to the sums, over their norm. ATP's scale of 10^6 comes to 1e-5 to
4e-5 in LeNet-5 and to 1e-4 in BERT-Tiny."""
ALIKE = 1e-2
"""Distance from the reference's weights, as a share of what training changed, up to which a trial's weights count as
the same. Beyond it, the reference's accuracies are not the trial's."""
MOST_REPEATED = 1e-3
"""Largest error of an asynchronous trial: the process that repeats it knows its order and comes, on one kind of
processor, to the same bits."""
ROUNDED_APART = 1e-4
"""Largest distance, as a share of their norm, of the weights of a server from its replica's by rounding, as both sum
the same updates in groups of their own. Adding an update to float32 weights rounds each by 2^-24 of itself at most, so
that n updates come to 2 n 2^-24 for the two: 840 updates to so much, if all were rounded one way. They are not, and so
the root of n counts. ResNet-8 and LeNet-5 came within 1e-6."""
Scales = tuple[float | None, ...]
"""Scales of fixed point by phase: how many integer steps to 1.0 gradients were rounded to; None for floats."""


@dataclass(frozen=True)
class Reference:
    """Result of single-process SGD.

    Attributes:
        weights: float32[parameters], in gradient order, read-only.
        accuracy: (iteration, share of the test set that is classified right after it), the last iteration included.
        coarseness: norm of what fixed point changed in all sums, over theirs; 0 for floats.
        scale: the least power of ten that keeps the coarseness well below :data:`COARSEST`.
        statistics: what the module keeps besides its weights, of rank 0.
        takeover_apart: the distance between the weights of a server when it was lost and those of its replica when that
            took over; None where none was.
        takeover_rounded: how much of that roundings explain (:data:`ROUNDED_APART`).
    """

    weights: NDArray[np.float32]
    accuracy: tuple[tuple[int, float], ...]
    coarseness: float = 0.0
    scale: float = 0.0
    statistics: tuple[Tensor, ...] = ()
    takeover_apart: float | None = None
    takeover_rounded: float | None = None


@cache
def reference(
    training: Training,
    world: int | Worlds,
    mode: Mode = "real",
    scales: Scales = (),
    noise: float = 0.0,
    draw: int = 0,
) -> Reference:
    """Compute weights and accuracy after training on the global batches of ``world`` ranks.

    Where ranks die, an iteration's global batch begins where that of the one before ended. ``scales`` are those of each
    phase; none means floats. Every sum is off by ``noise`` times its terms' magnitudes, either way at random; another
    ``draw`` has other signs.

    Compute mode ``none`` sends one gradient again and again and takes a single step with the last sum, so its
    reference is one iteration, of the ranks that made the last sum; when that step was taken says nothing about its
    other iterations, so it has no accuracies. All is kept for the next trial that has the same workload.

    Raises:
        SpecError: unknown model or data set.
    """
    replica = Replica(training)
    train = replica.data.train
    worlds: Worlds = ((0, world),) if isinstance(world, int) else world
    count = 1 if mode == "none" else training.iterations
    evaluated = set() if mode == "none" or noise else _evaluated(count, _most_evaluated(replica, worlds[0][1] * count))
    taken, found, sums = 0, [], _Sums(replica.gradient, noise, draw)
    for iteration in range(count):
        at = len(worlds) - 1 if mode == "none" else max(i for i, (first, _) in enumerate(worlds) if first <= iteration)
        ranks = worlds[at][1]
        size = ranks * training.batch
        positions = train[global_batch(training.seed, iteration, size, len(train), shift=taken - iteration * size)]
        taken += size
        sums.begin(scales[at] if scales else None)
        for rank, part in enumerate(np.split(positions, ranks)):  # in parts: the mean gradient is the same
            replica.draw(iteration, rank)
            with replica.statistics_of(rank):
                replica.compute(*replica.data.select(part))
            sums.add()
        sums.finish(ranks)
        replica.step(ranks)
        if iteration in evaluated:
            found.append((iteration, replica.evaluate()[0]))
    replica.weights.flags.writeable = False
    return Reference(replica.weights, tuple(found), sums.coarseness, sums.scale, tuple(replica.module.buffers()))


class _Sums:
    """Sums of one training, in ``gradient``, and the changes that fixed point makes to them."""

    def __init__(self, gradient: Floats, noise: float, draw: int) -> None:
        self._gradient = gradient
        self._shaken = _Shaken(noise, draw) if noise else None
        self._changed, self._squares, self._terms = 0.0, 0.0, 0

    def begin(self, scale: float | None) -> None:
        """Begin a new sum."""
        self._scale = np.float32(scale or 1.0)
        self._total = np.zeros_like(self._gradient)
        self._magnitude = np.zeros_like(self._gradient) if self._shaken else None
        self._steps = None if scale is None else np.zeros(len(self._gradient), np.int64)

    def add(self) -> None:
        """Add the gradient to the sum."""
        self._total += self._gradient
        if self._magnitude is not None:
            self._magnitude += np.abs(self._gradient)
        if self._steps is not None:
            self._steps += np.rint(self._gradient * self._scale).astype(np.int64)

    def finish(self, ranks: int) -> None:
        """Put the sum of ``ranks`` terms into the gradient."""
        self._gradient[:] = self._total
        if self._steps is not None:
            np.divide(self._steps.astype(np.float32), self._scale, out=self._gradient)
            self._changed += float(np.linalg.norm(self._gradient - self._total)) ** 2
            self._squares += float(np.linalg.norm(self._total)) ** 2
            self._terms += ranks * len(self._total)
        if self._shaken and self._magnitude is not None:
            self._shaken(self._gradient, self._magnitude)

    @property
    def coarseness(self) -> float:
        return float(np.sqrt(self._changed / self._squares)) if self._squares else 0.0

    @property
    def scale(self) -> float:
        """Least power of ten that is fine enough as a scale. Rounded to steps of 1/scale, each of n terms is off by its
        12th's root, and all sums by sqrt(n/12)/scale.

        That is to be a third of :data:`COARSEST`, for sums get smaller when training gets on, which it did not do here.
        """
        if not self._squares:
            return 0.0
        least = np.sqrt(self._terms / 12 / self._squares) / (COARSEST / 3)
        return float(10.0 ** np.ceil(np.log10(least)))


class _Shaken:
    """Noise that puts values off by ``noise`` times their magnitude, at random; the same for a ``draw``."""

    def __init__(self, noise: float, draw: int) -> None:
        self._noise, self._random = np.float32(noise), np.random.default_rng(draw)

    def __call__(self, values: Floats, magnitude: Floats) -> None:
        signs = self._random.integers(0, 2, len(values), np.int8) * np.int8(2) - np.int8(1)
        values += self._noise * signs * magnitude


def _evaluated(count: int, most: int) -> set[int]:
    """Choose ``most`` iterations of ``count``, the last one included, after which the accuracy is computed."""
    first = 0 if most > 1 else count - 1
    return {round(i) for i in np.linspace(first, count - 1, min(count, most))}


def _most_evaluated(replica: Replica, batches: int) -> int:
    """Return how many iterations to evaluate. A user's model may take long for a sample, and its test set may be large.
    So after each of these iterations no more samples are classified than were trained on in between."""
    if not replica.training.own:
        return MOST_EVALUATED
    return min(MOST_EVALUATED, max(1, batches * replica.training.batch // len(replica.data.test)))


def repeated(
    training: Training, world: int, order: Sequence[Update | Step], noise: float = 0.0, draw: int = 0
) -> Reference:
    """Compute weights and accuracy after the updates of an asynchronous scheme, each computed on the version that it
    was computed on in the trial.

    Updates that were summed on their way are summed here, in the same order. Accuracies are by rounds: as many updates,
    one after the other, as there are workers. Every gradient is off by ``noise`` times itself, either way at random;
    another ``draw`` has other signs.

    Raises:
        SpecError: unknown model or data set.
    """
    every = [step for step in steps(order) if not step.is_dropped]  # what was dropped is lost
    updates = [update for step in every for update in step.updates]
    if any(update.server for update in updates):
        return _repeated_in_parts(training, world, updates, noise, draw)
    replica = Replica(training)
    former, newest = _Server(replica.weights, updates, is_former=True), _Server(replica.weights, updates)
    evaluated = set() if noise else _evaluated(_count(every) // world, _most_evaluated(replica, _count(every)))
    found, shaken = [], _Shaken(noise, draw) if noise else None
    uses = Counter((update.rank, update.iteration) for update in updates)
    kept: dict[tuple[int, int], Floats] = {}
    """Gradients that are used twice: by a server that was lost, and by its replica."""
    at_takeover = newest.weights

    def gradient(update: Update) -> Floats:
        whose = update.rank, update.iteration
        if whose in kept:
            return kept.pop(whose)
        replica.weights[:] = (former if update.on_former else newest).at_version(update.version)
        with replica.statistics_of(update.rank):
            replica.compute(*replica.samples(update.iteration, update.rank, world))
        if shaken:
            shaken(replica.gradient, np.abs(replica.gradient))
        if uses[whose] > 1:
            kept[whose] = replica.gradient.copy()
        return replica.gradient

    for step in every:
        server = former if step.by == "former" else newest
        sums = _Together(step, training.momentum)
        for update, share in zip(step.updates, step.shares, strict=True):
            sums.add(gradient(update), share)
        sums.change(training, server.weights, server.velocity, world)
        server.changed(len(step.updates))
        if step.by == "replica":
            at_takeover = newest.weights.copy()
        if step.by:
            continue
        passed = {one for one in evaluated if world * (one + 1) <= newest.version}
        if passed:
            replica.weights[:] = newest.weights
            found += [(iteration, replica.evaluate()[0]) for iteration in sorted(passed)]
            evaluated -= passed
    ideal = Reference(newest.weights, tuple(found), statistics=tuple(replica.module.buffers()))
    if not former.version:
        return ideal
    apart, size = np.linalg.norm(former.weights - at_takeover), np.linalg.norm(former.weights)
    return replace(ideal, takeover_apart=float(apart), takeover_rounded=ROUNDED_APART * float(size))


def _count(every: Sequence[Step]) -> int:
    """Count the updates that the weights have in the end."""
    return sum(len(step.updates) for step in every if step.by != "former")


class _Server:
    """The weights that one server has, and those of its former versions that are still used."""

    def __init__(self, first: Floats, updates: Sequence[Update], *, is_former: bool = False) -> None:
        self.weights, self.velocity, self.version = first.copy(), np.zeros_like(first), 0
        self._uses = Counter(update.version for update in {*updates} if update.on_former == is_former)
        self._kept = {0: first.copy()}

    def at_version(self, version: int) -> Floats:
        """Return the weights of a version on which an update is computed; they are let go after the last one."""
        self._uses[version] -= 1
        return self._kept[version] if self._uses[version] else self._kept.pop(version)

    def changed(self, updates: int) -> None:
        """Note that so many updates were made."""
        self.version += updates
        if self._uses[self.version]:
            self._kept[self.version] = self.weights.copy()


class _Together:
    """Gradients of one step: of one update, or of several that are summed, for weights and for velocity."""

    def __init__(self, step: Step, momentum: float) -> None:
        self._step, self._momentum = step, momentum
        self._sums: list[Floats] = []

    def add(self, gradient: Floats, share: tuple[float, float]) -> None:
        """Add the next gradient."""
        counts = share if self._step.is_sum and self._momentum else share[:1]
        if not self._sums:
            self._sums = [np.zeros_like(gradient) for _ in counts]
        for total, count in zip(self._sums, counts, strict=True):
            total += gradient if count == 1.0 else np.float32(count) * gradient

    def change(self, training: Training, weights: Floats, velocity: Floats, world: int) -> None:
        """Change weights and velocity by all gradients of the step."""
        if len(self._sums) == 1:
            descend(training, weights, velocity, self._sums[0], world)
            return
        powers = [self._momentum**power for power in range(len(self._step.updates) + 1)]
        history = (float(sum(powers)) - 1.0, powers[-1])
        descend_together(training, weights, velocity, (self._sums[0], self._sums[1]), history, world)


def _repeated_in_parts(training: Training, world: int, order: Sequence[Update], noise: float, draw: int) -> Reference:
    """Repeat updates where several servers have a part of the weights each, and their orders are merged. A round ends
    when each of them has applied as many updates as there are workers."""
    replica, shaken = Replica(training), _Shaken(noise, draw) if noise else None
    rounds = len(versions(order)) // world
    evaluated = set() if noise else _evaluated(rounds, _most_evaluated(replica, rounds * world))
    ends = {world * (iteration + 1) for iteration in evaluated}
    parts, velocity = Parts(replica.weights, order, wanted=ends), np.zeros_like(replica.weights)
    found = []

    def gradient(update: Update, weights: Floats) -> Floats:
        replica.weights[:] = weights
        with replica.statistics_of(update.rank):
            replica.compute(*replica.samples(update.iteration, update.rank, world))
        if shaken:
            shaken(replica.gradient, np.abs(replica.gradient))
        return replica.gradient.copy()

    for update in order:
        at = slice(*parts.spans[update.server])
        descend(training, parts.newest[at], velocity[at], parts.gradient(update, gradient)[at], world)
        if parts.applied(update) in ends:
            replica.weights[:] = parts.at_version(parts.least)
            found.append((parts.least // world - 1, replica.evaluate()[0]))
    return Reference(parts.newest, tuple(found), statistics=tuple(replica.module.buffers()))


def judged(
    weights: Floats,
    training: Training,
    worlds: Worlds,
    mode: Mode = "real",
    scales: Scales = (),
    order: Sequence[Update | Step] = (),
) -> dict[str, Any]:
    """Judge a trial's weights.

    ``order`` is that of the updates of an asynchronous scheme.

    Returns:
        ``test_accuracy``, ``test_loss``, ``weights_error`` (distance to the reference over the reference's norm),
        ``training_error`` (the same over what training changed), ``training_allowed`` (how much of that rounding
        explains; 0 where there is nothing to explain), ``coarseness`` and ``scale_needed`` (see :class:`Reference`),
        ``coarsest`` (:data:`COARSEST`), ``takeover_apart`` and ``takeover_rounded`` (see :class:`Reference`),
        ``curve``: the reference's accuracies if the weights are its own, else None; and ``curve_of``, which of these
        numbers the curve is of.

    Raises:
        SpecError: unknown model or data set.
        ValueError: ``weights`` has another length than the model.
    """

    def trained(noise: float, draw: int = 0) -> Reference:
        if order:
            return repeated(training, worlds[0][1], order, noise, draw)
        return reference(training, worlds, mode, scales if any(scales) else (), noise, draw)

    ideal = trained(noise=0.0)
    test_accuracy, test_loss = accuracy(training, weights, ideal.statistics)
    error, most = training_error(weights, ideal.weights, training), 0.0
    for draw in range(MOST_DRAWS):
        if error <= most or math.isnan(error):
            break
        most = max(most, allowed(ideal.weights, trained(NOISE, draw).weights, training))
    return {
        "test_accuracy": test_accuracy,
        "test_loss": test_loss,
        "weights_error": relative_error(weights, ideal.weights),
        "training_error": error,
        "training_allowed": min(most, MOST_REPEATED) if order else most,
        "coarseness": ideal.coarseness,
        "coarsest": COARSEST,
        "scale_needed": ideal.scale,
        "curve_of": "test_accuracy",
        "takeover_apart": ideal.takeover_apart,
        "takeover_rounded": ideal.takeover_rounded,
        "curve": ideal.accuracy if error <= ALIKE else None,
    }


def accuracy(
    training: Training, weights: NDArray[np.float32], statistics: Sequence[Tensor] = ()
) -> tuple[float, float]:
    """Compute the share of the test images that ``weights`` classify right, and the mean loss on them; ``statistics``
    are as in a :class:`Reference`.

    Raises:
        SpecError: unknown model or data set.
        ValueError: ``weights`` has another length than the model.
    """
    replica = Replica(training)
    replica.weights[:] = weights
    replica.take_statistics(statistics)
    return replica.evaluate()


def allowed(ideal: NDArray[np.float32], shaken: NDArray[np.float32], training: Training) -> float:
    """Return how far a right trial's weights may be from the ``ideal`` ones, as a share of what training changed, where
    sums that are off by :data:`NOISE` led to ``shaken`` ones."""
    return MARGIN * training_error(shaken, ideal, training)


def training_error(weights: NDArray[np.float32], reference: NDArray[np.float32], training: Training) -> float:
    """Return the norm of the difference over the norm of what training changed: from the initial weights to the
    reference.

    Initial weights are far larger than a short training's changes. Relative to the weights themselves, sums that lack
    a whole worker are off by 3e-5 at a learning rate of 5e-4, and by less at a lower one; relative to what training
    changed they are off by 1e-2 at any.
    """
    off = float(np.linalg.norm(weights - reference))
    moved = float(np.linalg.norm(reference - first_weights(training)))
    return off / moved if moved else off and math.inf


def relative_error(weights: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the norm of the difference over the norm of the reference."""
    return float(np.linalg.norm(weights - reference) / np.linalg.norm(reference))
