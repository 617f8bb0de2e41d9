"""Files in UCI's format, and what is said of others."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.workloads.lda.corpus import Bags, corpus, read_docword

GOOD = "3\n4\n5\n1 1 2\n1 3 1\n2 4 1\n3 1 1\n3 2 7\n"


def read(folder: Path, text: str, most: int | None = None) -> Bags:
    (folder / "corpus.txt").write_text(text)
    return read_docword(folder / "corpus.txt", "./corpus.txt", most)


def test_counts_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.vocabulary == 4
    entries = np.stack([found.documents, found.words, found.counts], axis=1)
    assert entries.tolist() == [[0, 0, 2], [0, 2, 1], [1, 3, 1], [2, 0, 1], [2, 1, 7]]


def test_words_may_be_in_any_order_and_documents_empty(tmp_path: Path) -> None:
    found = read(tmp_path, "3\n4\n3\n1 3 1\n1 1 2\n3 2 7\n")
    assert found.documents.tolist() == [0, 0, 2]
    assert found.words.tolist() == [0, 2, 1]


def test_a_part_is_read_alone(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD.replace("3 2 7", "nothing like it"), most=2)
    assert found.documents.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (GOOD, "", "is empty"),
        (GOOD, "3\n4\n", "ends before line 3"),
        ("3\n4", "three\n4", "line 1 is 'three', not the number of documents"),
        ("3\n4", "3\n0", "line 2 is '0', not the number of words"),
        ("3\n4", "3\n-4", "line 2 is '-4', not the number of words"),
        ("4\n5", "4\n5.0", "line 3 is '5.0', not the number of lines with counts"),
        ("3\n4", "3\n2000000", "has a vocabulary of 2,000,000 words; 1,000,000 are allowed"),
        ("1 3 1", "1 3", "line 5 is '1 3', not three whole numbers above 0"),
        ("1 3 1", "1 3 0", "line 5 is '1 3 0', not three"),
        ("1 3 1", "1 3 1 1", "line 5 is '1 3 1 1', not three"),
        ("1 3 1", "1 3 ²", "is no text of ASCII characters"),
        ("1 3 1", "1 5 1", "line 5 is of document 1 and word 5, and the file announces 3 documents and 4 words"),
        ("3 2 7", "4 2 7", "line 8 is of document 4 and word 2"),
        ("3 1 1", "1 2 1", "line 7 is of document 1, after one of document 2"),
        ("3 2 7", "3 1 7", "line 8 is of document 3 and word 1, as one before it"),
        ("3 2 7\n", "", "ends before line 8"),
        ("3 2 7\n", "3 2 7\n3 3 1\n", "goes on after the 5 lines with counts that it announces"),
        ("1 3 1", " " * 100, "has more than 64 characters in line 5"),
        ("3 2 7", "3 2 17000000", "has more than 16,777,216 tokens"),
    ],
)
def test_what_is_none(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in GOOD
    with pytest.raises(SpecError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert problem in caught.value.problem
    assert caught.value.fix


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: no such file"):
        read_docword(tmp_path / "absent.txt", "./absent.txt", None)
    os.mkfifo(tmp_path / "fifo.txt")
    with pytest.raises(SpecError, match="is no regular file"):
        read_docword(tmp_path / "fifo.txt", "./fifo.txt", None)


@pytest.mark.parametrize("name", ["/proc/kmsg", "/dev/zero", "/dev/tty", "/proc/self/mem", "/proc/self/status"])
def test_files_of_the_kernels_are_not_read(name: str, tmp_path: Path) -> None:
    """Some wait for ever, some have no end, and what is read of the kernel's log is gone."""
    (tmp_path / "corpus.txt").symlink_to(name)
    with pytest.raises(SpecError, match=r"is empty|is no regular file|cannot be read"):
        read_docword(tmp_path / "corpus.txt", "./corpus.txt", None)


def test_a_number_of_documents_is_no_amount_of_memory(tmp_path: Path) -> None:
    """Neither what a file announces nor the number of a document takes memory, in shards neither."""
    text = "1000000000000\n1000000\n4\n1 1000000 2\n2 1000000 2\n999999999999 1 2\n1000000000000 1 2\n"
    tracemalloc.start()
    found = read(tmp_path, text).without(1, 1.0)
    made = corpus(found, 0.2, 1, "./corpus.txt")
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 64 * 2**20
    assert (found.vocabulary, sorted(made.train.lengths.tolist())) == (2, [2, 2, 2])
