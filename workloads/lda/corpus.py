"""Collections of documents as bags of words: the vocabulary, held-out documents, and a shard for each worker."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError

Ints = NDArray[np.int64]

MOST_TOKENS = 2**24
"""Limit on the tokens: a count is at most their number, and float32 has all whole numbers up to this one."""
MOST_WORDS = 1_000_000
"""Limit on a vocabulary before rare words are left out. UCI's largest, PubMed's, has 141,043."""


@dataclass(frozen=True, eq=False)
class Bags:
    """Counts of each document's words: entries with the same index belong together.

    Attributes:
        documents, words, counts: of each entry, sorted by document; each pair of document and word is there once.
        vocabulary: number of words that there may be.
    """

    documents: Ints
    words: Ints
    counts: Ints
    vocabulary: int

    @classmethod
    def of(cls, entries: Ints, vocabulary: int) -> Bags:
        """Make bags of rows (document, word, count)."""
        documents, words, counts = entries[np.lexsort((entries[:, 1], entries[:, 0]))].T
        return cls(documents, words, counts, vocabulary)

    @classmethod
    def of_texts(cls, texts: Sequence[Sequence[str]]) -> Bags:
        """Make bags of the words of each document; words get their numbers in alphabetical order."""
        known = {word: number for number, word in enumerate(sorted({word for text in texts for word in text}))}
        rows = [
            (document, known[word], count)
            for document, text in enumerate(texts)
            for word, count in Counter(text).items()
        ]
        return cls.of(np.array(rows, np.int64).reshape(-1, 3), len(known))

    def without(self, least_documents: int, most_documents: float) -> Bags:
        """Remove words that fewer than ``least_documents`` documents have, or more than a share ``most_documents`` of
        them; and documents that have no word then. Words and documents get new numbers."""
        all_documents = len(np.unique(self.documents))
        having = np.bincount(self.words, minlength=self.vocabulary)
        kept = (having >= least_documents) & (having <= most_documents * all_documents)
        stays = kept[self.words]
        number = np.cumsum(kept) - 1
        _, documents = np.unique(self.documents[stays], return_inverse=True)
        return Bags(documents.reshape(-1), number[self.words[stays]], self.counts[stays], int(kept.sum()))


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents as tokens.

    Attributes:
        words: by token, its word; tokens of a document are beside each other.
        lengths: tokens of each document.
    """

    words: Ints
    lengths: Ints

    @classmethod
    def of(cls, bags: Bags) -> Documents:
        lengths = np.bincount(bags.documents, bags.counts).astype(np.int64)
        return cls(np.repeat(bags.words, bags.counts), lengths)

    def select(self, chosen: Ints) -> Documents:
        """Select some documents, in this order."""
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        at = np.arange(lengths.sum()) + np.repeat(starts[chosen] - (ends - lengths), lengths)
        return Documents(self.words[at], lengths)

    def shuffled(self, random: np.random.Generator) -> Documents:
        """Return the same documents with the tokens of each in another order."""
        document = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return Documents(self.words[np.lexsort((random.random(len(document)), document))], self.lengths)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents that are sampled, and others on which the result is tested.

    Attributes:
        train: documents that workers share.
        test: others. The first half of each one's tokens, rounded down, is what is known of it, the rest is to be
            foretold.
        vocabulary: number of words.
    """

    train: Documents
    test: Documents
    vocabulary: int


LEAST_TESTED = 2
"""Least tokens of a document of which one half is to foretell the other."""


def corpus(bags: Bags, held_out: float, seed: int, shown: str) -> Corpus:
    """Hold a share of the documents out, at random; ``shown`` is the name of the corpus in errors.

    Raises:
        SpecError: too few documents are left for either.
    """
    documents = Documents.of(bags)
    random = np.random.default_rng([seed, len(documents.lengths)])
    long = np.flatnonzero(documents.lengths >= LEAST_TESTED)
    count = max(1, round(held_out * len(documents.lengths)))
    if len(documents.lengths) < 2 or len(long) < count or count >= len(documents.lengths):
        raise SpecError(
            f"corpus {shown!r} has {len(documents.lengths):,} documents with words that are frequent enough; "
            f"{count:,} of at least {LEAST_TESTED} such words are to be held out",
            fix="take a larger corpus, a smaller held_out, or leave fewer words out (least_documents, most_documents)",
        )
    chosen = np.sort(random.permutation(long)[:count])
    rest = np.setdiff1d(np.arange(len(documents.lengths)), chosen)
    return Corpus(documents.select(rest), documents.select(chosen).shuffled(random), bags.vocabulary)


def shards(lengths: Ints, world: int, seed: int) -> list[Ints]:
    """Deal the documents to workers, so that all have about as many tokens: the longest document first, each to the
    worker that has the fewest tokens so far (Graham 1969), documents of one length at random.

    Raises:
        SpecError: there are more workers than documents.
    """
    if len(lengths) < world:
        raise too_few(len(lengths), world)
    mixed = np.random.default_rng([seed, world]).permutation(len(lengths))
    least: list[tuple[int, int]] = [(0, rank) for rank in range(world)]
    found: list[list[int]] = [[] for _ in range(world)]
    for document in mixed[np.argsort(-lengths[mixed], kind="stable")].tolist():
        tokens, rank = least[0]
        heapq.heapreplace(least, (tokens + int(lengths[document]), rank))
        found[rank].append(document)
    return [np.array(sorted(one), np.int64) for one in found]


def too_few(documents: int, world: int) -> SpecError:
    """Make the error for more workers than documents: one would have nothing to sample."""
    return SpecError(
        f"the corpus has {documents:,} documents to train on, and {world:,} workers need one each",
        fix="take a larger corpus, or fewer hosts",
    )
