"""Bags of words in the format of UCI's archive (``docword.nytimes.txt``): three lines with the number of documents,
of words in the vocabulary, and of lines to come; then a document, a word and how often it is there on each line.
Documents and words are counted from 1 on, and documents are in their order.
"""

from __future__ import annotations

import os
import stat
from array import array
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np

from testbed.base.errors import SpecError
from testbed.workloads.lda.corpus import MOST_TOKENS, MOST_WORDS, Bags

LONGEST_LINE = 64
"""Limit on the characters of a line: three numbers of 19 digits, and spaces."""
MOST_ANNOUNCED = 10**12
"""Limit on each number in the first lines; numbers of documents are kept in 64 bits."""
HEADER = ("documents", "words", "lines with counts")
WANTED = "three whole numbers above 0 (document, word, count)"


def read(path: Path, shown: str, most_documents: int | None) -> Bags:
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
