"""A worker's shard: its documents, the topics of its tokens, and the topics that are in the common counts already.

The common counts are those of some version: the sum over all workers of the counts of the topics that they had then. A
worker samples against the common counts, plus its own changes that are not in them. Its update is its own counts now
less those that are in the common counts. So an update that is dropped is not lost: the next one has it in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.lda.corpus import Documents
from testbed.workloads.lda.gibbs import Ints, Prior, Scan, sweep
from testbed.workloads.lda.task import TopicModel

Floats = NDArray[np.float32]


class Shard:
    """One worker's part.

    :meth:`sample` draws from the state that the last :meth:`settle` left, so it may be repeated.
    """

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
