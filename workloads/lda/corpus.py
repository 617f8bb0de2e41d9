"""Collections of documents as bags of words: read from files, with a vocabulary, held-out documents, and a shard for
each worker.

Files are in the format of UCI's archive (``docword.nytimes.txt``): three lines with the number of documents, of words
in the vocabulary, and of lines to come; then a document, a word and how often it is there on each line. Documents and
words are counted from 1 on, and documents are in their order.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.workloads.longest_first import longest_first

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
    dealt = longest_first(lengths[mixed].tolist(), world)
    return [np.sort(mixed[dealt == rank]) for rank in range(world)]


def too_few(documents: int, world: int) -> SpecError:
    """Make the error for more workers than documents: one would have nothing to sample."""
    return SpecError(
        f"the corpus has {documents:,} documents to train on, and {world:,} workers need one each",
        fix="take a larger corpus, or fewer hosts",
    )


LONGEST_LINE = 64
"""Limit on the characters of a line: three numbers of 19 digits, and spaces."""
MOST_ANNOUNCED = 10**12
"""Limit on each number in the first lines; numbers of documents are kept in 64 bits."""
HEADER = ("documents", "words", "lines with counts")
WANTED = "three whole numbers above 0 (document, word, count)"


def read_docword(path: Path, shown: str, most_documents: int | None) -> Bags:
    """Read the documents of a file, the first ``most_documents`` of them; ``shown`` is its name in errors.

    Raises:
        SpecError: it cannot be read, is not in this format, or has too many tokens.
    """
    reader = _Reader(shown)
    try:
        with open(_opened(path, shown), encoding="ascii") as file:
            return reader.read(file, most_documents)
    except OSError as error:
        problem = f"corpus {shown!r} cannot be read: {(error.strerror or str(error)).lower()}"
        raise SpecError(problem, fix="correct its path, which is taken from the spec's directory") from None
    except UnicodeDecodeError:
        raise _unfit(shown, "is no text of ASCII characters") from None


def _opened(path: Path, shown: str) -> int:
    """Open a file without waiting: others may have put something else in its place, such as a FIFO. Files of the
    kernel's have no size and may wait for ever, as ``/proc/kmsg`` does, where what was read is gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size:
        return descriptor
    os.close(descriptor)
    if stat.S_ISREG(found.st_mode):
        raise _unfit(shown, "is empty")
    raise SpecError(f"corpus {shown!r} is no regular file", fix="give the path of a docword file")


class _Reader:
    """Reader of one file, which knows in which line it is."""

    def __init__(self, shown: str) -> None:
        self._shown, self._line = shown, 0

    def read(self, file: TextIO, most_documents: int | None) -> Bags:
        documents, words, count = (self._header(file, what) for what in HEADER)
        if words > MOST_WORDS:
            self._refuse(f"has a vocabulary of {words:,} words; {MOST_WORDS:,} are allowed")
        asked = documents if most_documents is None else min(documents, most_documents)
        entries, tokens, now, has = array("q"), 0, 1, set[int]()  # a tuple for each would take six times as much
        for _ in range(count):
            document, word, times = self._entry(file)
            if document > documents or word > words:
                self._refuse(
                    f"line {self._line} is of document {document:,} and word {word:,}, and the file announces "
                    f"{documents:,} documents and {words:,} words"
                )
            if document != now:
                now, before, has = document, now, set()
                if now < before:
                    self._refuse(f"line {self._line} is of document {now:,}, after one of document {before:,}")
            if word in has:
                self._refuse(f"line {self._line} is of document {document:,} and word {word:,}, as one before it")
            if document > asked:
                break
            has.add(word)
            tokens += times
            if tokens > MOST_TOKENS:
                raise too_large(self._shown)
            entries.extend((document - 1, word - 1, times))
        else:
            if file.read(1):
                self._refuse(f"goes on after the {count:,} lines with counts that it announces")
        return Bags.of(np.array(entries, np.int64).reshape(-1, 3), words)

    def _header(self, file: TextIO, what: str) -> int:
        text = self._next(file)
        if not (text.isdecimal() and int(text)):
            self._refuse(f"line {self._line} is {text!r:.40}, not the number of {what}")
        if int(text) > MOST_ANNOUNCED:
            self._refuse(f"announces {text:.40} {what}; {MOST_ANNOUNCED:,} are allowed")
        return int(text)

    def _entry(self, file: TextIO) -> tuple[int, int, int]:
        text = self._next(file)
        parts = text.split()
        if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
            self._refuse(f"line {self._line} is {text!r:.40}, not {WANTED}")
        document, word, times = map(int, parts)
        return document, word, times

    def _next(self, file: TextIO) -> str:
        self._line += 1
        text = file.readline(LONGEST_LINE + 1)
        if not text:
            self._refuse(f"ends before line {self._line}")
        if len(text) > LONGEST_LINE:
            self._refuse(f"has more than {LONGEST_LINE} characters in line {self._line}")
        return text.strip()

    def _refuse(self, why: str) -> NoReturn:
        raise _unfit(self._shown, why)


def _unfit(shown: str, why: str) -> SpecError:
    return SpecError(
        f"corpus {shown!r}: {why}",
        fix="give a docword file as UCI publishes them, unpacked: three lines with one number, then lines with three",
    )


def too_large(shown: str) -> SpecError:
    """Make the error for too many tokens: a count could be beyond the whole numbers that float32 has."""
    return SpecError(
        f"corpus {shown!r} has more than {MOST_TOKENS:,} tokens, and float32 counts exactly only up to that",
        fix="take a part of it: documents: 10000",
    )
