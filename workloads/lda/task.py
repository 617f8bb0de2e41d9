"""A job's topic model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class TopicModel:
    """A topic model and its sampling; the same on every rank.

    Attributes:
        words: size of the vocabulary.
        alpha, beta: concentration of the Dirichlet priors of a document's topics and of a topic's words.
        own_digest: of the corpus.
        own: its files, as this process sees them (:mod:`testbed.workloads.lda.files`).
    """

    words: int
    topics: int
    alpha: float
    beta: float
    iterations: int
    seed: int
    kind: Literal["lda"] = "lda"
    own_digest: str = ""
    own: tuple[str, ...] = field(default=(), compare=False)

    @property
    def arrays(self) -> int:
        """Number of arrays: the counts alone."""
        return 1

    @property
    def floats(self) -> int:
        """Length of the word-topic counts: a row of topics for each word."""
        return self.words * self.topics
