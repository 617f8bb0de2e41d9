"""Shards of workers, and the reference for a distributed trial, number for number: one process that samples all shards,
from the same seeds.

The common counts are those of some version: the sum over all workers of the counts of the topics that they had then. A
worker samples against the common counts, plus its own changes that are not in them. Its update is its own counts now
less those that are in the common counts. So an update that is dropped is not lost: the next one has it in it.

Counts are whole, so sums have no order, and each draw is a function of counts and seed. So the trial's counts and those
of the reference are the same bits, of synchronous schemes and, with the updates in the server's order, of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import TopicModel
from testbed.workloads.lda import files
from testbed.workloads.lda.corpus import Documents
from testbed.workloads.lda.gibbs import Ints, Prior, Scan, sweep
from testbed.workloads.lda.likelihood import per_token
from testbed.workloads.learning.parts import Parts, versions
from testbed.workloads.learning.updates import Step, Update, steps

Floats = NDArray[np.float32]


class Shard:
    """One worker's part; :meth:`sample` draws from the state that the last :meth:`settle` left, and may be repeated."""

    def __init__(self, model: TopicModel, rank: int, documents: Documents) -> None:
        """Set up; topics begin at random, each as likely as the others."""
        self._model, self._rank = model, rank
        self._scan, self._prior = Scan(documents.words, documents.lengths), Prior(model.alpha, model.beta)
        self._now = self._drawn = self._common = self._random(0).integers(model.topics, size=len(self._scan))

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self._model.seed, self._rank, number])

    def _counts(self, topics: Ints) -> Ints:
        """Count how many of this shard's tokens of each word have each topic: int64[floats]."""
        found: Ints = np.bincount(self._scan.words * self._model.topics + topics, minlength=self._model.floats)
        return found

    @property
    def counts(self) -> Ints:
        """Counts of its tokens that are in the common counts."""
        return self._counts(self._common)

    def sample(self, iteration: int, common: Floats) -> float:
        """Draw a topic for each token, against the ``common`` counts; return minus the mean log-likelihood (nats) of a
        token, given the topics of all others."""
        counts = common.copy()
        if self._common is not self._now:
            counts += self._counts(self._now) - self._counts(self._common)
        table = counts.reshape(self._model.words, self._model.topics)
        uniforms = self._random(1 + iteration).random(len(self._scan))
        self._drawn, likelihood = sweep(self._scan, self._now, table, self._prior, uniforms)
        return -likelihood

    def change(self, into: Floats) -> None:
        """Write the update: the difference between its counts, as last sampled, and its part of the common counts."""
        into[:] = self._counts(self._drawn) - self._counts(self._common)

    def settle(self, *, is_common: bool) -> None:
        """Go on from the last sample, which is in the common counts from now on or, dropped, is not."""
        self._now = self._drawn
        if is_common:
            self._common = self._drawn


def first_counts(shards: list[Shard], floats: int) -> Floats:
    """Sum up the common counts that all begin with, float32[floats]."""
    found = np.zeros(floats, np.int64)
    for shard in shards:
        found += shard.counts
    return found.astype(np.float32)


REFERENCE = "a single process that samples every shard"
MOST_TESTED = 50
"""Largest number of iterations, evenly spaced, after each of which the held-out documents are tested."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Result of the reference's sampling, with the ``first`` and the ``last`` counts; ``curve`` has (iteration,
    log-likelihood per token of the held-out documents right after it), the last one included."""

    first: Floats
    last: Floats
    curve: tuple[tuple[int, float], ...]


def shards(model: TopicModel, world: int) -> list[Shard]:
    """Make all workers' shards, as they begin."""
    return [Shard(model, rank, documents) for rank, documents in enumerate(files.dealt(model, world))]


def tested(model: TopicModel, counts: Floats) -> float:
    """Compute the log-likelihood per token of the held-out documents."""
    table = counts.reshape(model.words, model.topics)
    return per_token(table, files.load(model).test, Prior(model.alpha, model.beta))


@cache
def synchronous(model: TopicModel, world: int) -> Reference:
    """Sample as a synchronous trial does: all workers' changes are summed in each iteration. The result is kept for the
    next trial with the same workload."""
    parts = shards(model, world)
    first = first_counts(parts, model.floats)
    return _traced(model, first, model.iterations, _sums(parts, first, model.iterations))


def _sums(parts: Sequence[Shard], first: Floats, iterations: int) -> Iterator[Floats]:
    """Yield the counts after each iteration."""
    counts, total, change = first.copy(), np.empty_like(first), np.empty_like(first)
    for iteration in range(iterations):
        total.fill(0)
        for part in parts:
            part.sample(iteration, counts)
            part.change(change)
            total += change
            part.settle(is_common=True)
        counts += total
        yield counts


def asynchronous(model: TopicModel, world: int, order: Sequence[Update | Step]) -> Reference:
    """Sample as an asynchronous trial does: each change is an update of its own, or a few are summed: these, in their
    order, each against the version that it was computed on.

    The curve is by rounds: as many updates that were not dropped, one after the other, as there are workers.
    """
    parts = shards(model, world)
    every = [step for step in steps(order) if step.by != "former"]  # sums are exact, so a replica had the same
    first = first_counts(parts, model.floats)
    updates = [update for step in every for update in step.updates]
    if any(update.server for update in updates):
        return _traced(model, first, len(versions(updates)) // world, _by_servers(parts, first, updates))
    rounds = -(-sum(len(step.updates) for step in every if not step.is_dropped) // world)
    return _traced(model, first, rounds, _by_rounds(_steps(parts, first, every), world))


def _by_rounds(counts: Iterable[tuple[int, Floats]], world: int) -> Iterator[Floats]:
    """Yield the counts once each round is over; at the end, those of a round that is not."""
    done, now = 0, None
    for updates, now in counts:
        for _ in range((done + updates) // world - done // world):
            yield now
        done += updates
    if done % world and now is not None:
        yield now


def _steps(parts: Sequence[Shard], first: Floats, every: Sequence[Step]) -> Iterator[tuple[int, Floats]]:
    """Yield how many updates each step makes, and the counts after it; a dropped update makes none."""
    counts, change, version = first.copy(), np.empty_like(first), 0
    versions = {0: first}
    last_use = {update.version: at for at, step in enumerate(every) for update in step.updates}
    for at, step in enumerate(every):
        total = np.zeros_like(first)
        for update in step.updates:
            parts[update.rank].sample(update.iteration, versions[update.version])
            parts[update.rank].change(change)
            parts[update.rank].settle(is_common=not step.is_dropped)
            total += change
        for used in {update.version for update in step.updates if last_use[update.version] == at}:
            del versions[used]
        if not step.is_dropped:
            counts += total
            version += len(step.updates)
            if last_use.get(version, -1) > at:
                versions[version] = counts.copy()
        yield (0 if step.is_dropped else len(step.updates)), counts


def _by_servers(shards: Sequence[Shard], first: Floats, order: Sequence[Update]) -> Iterator[Floats]:
    """Yield the counts after each round where several servers have a part of them each, and their orders are merged."""
    rounds = range(len(shards), len(versions(order)) + 1, len(shards))
    parts = Parts(first, order, wanted=rounds)

    def change(update: Update, counts: Floats) -> Floats:
        found, shard = np.empty_like(first), shards[update.rank]
        shard.sample(update.iteration, counts)
        shard.change(found)
        shard.settle(is_common=True)
        return found

    for update in order:
        at = slice(*parts.spans[update.server])
        parts.newest[at] += parts.gradient(update, change)[at]
        if parts.applied(update) in rounds:
            yield parts.at_version(parts.least)


def _traced(model: TopicModel, first: Floats, iterations: int, counts: Iterator[Floats]) -> Reference:
    """Test the counts after some of the iterations."""
    chosen = {round(i) for i in np.linspace(0, iterations - 1, min(iterations, MOST_TESTED))}
    curve, last = [], first
    for iteration, last in enumerate(counts):
        if iteration in chosen:
            curve.append((iteration, tested(model, last)))
    last.flags.writeable = False
    return Reference(first, last, tuple(curve))


def judged(weights: Floats, model: TopicModel, world: int, order: Sequence[Update | Step]) -> dict[str, Any]:
    """Judge a trial's counts, as :func:`testbed.workloads.learning.reference.judged` does weights, with
    ``log_likelihood`` in place of accuracy and loss. Nothing is explained by rounding, for nothing is rounded.

    Raises:
        ValueError: ``weights`` has another length than the model.
    """
    ideal = asynchronous(model, world, order) if order else synchronous(model, world)
    off, moved = (float(np.abs(one - ideal.last).sum()) for one in (weights, ideal.first))
    error = off / moved if moved else float(off > 0)
    return {
        "log_likelihood": tested(model, weights) if weights.min() >= 0 else None,
        "weights_error": float(np.linalg.norm(weights - ideal.last) / np.linalg.norm(ideal.last)),
        "training_error": error,
        "training_allowed": 0.0,
        "coarseness": 0.0,
        "coarsest": 0.0,
        "scale_needed": 0.0,
        "curve_of": "log_likelihood",
        "curve": ideal.curve if error == 0 else None,
        "reference": REFERENCE,
    }
