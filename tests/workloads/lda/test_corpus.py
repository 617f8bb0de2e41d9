"""Vocabularies, held-out documents, and shards."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.workloads.lda.corpus import Bags, Documents, corpus, read_docword, shards

TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=2, max_size=12)


def told(documents: Documents) -> list[Counter[int]]:
    parts = np.split(documents.words, np.cumsum(documents.lengths)[:-1])
    return [Counter(part.tolist()) for part in parts]


@given(TEXTS, st.integers(1, 4), st.floats(0.1, 1))
def test_words_that_are_too_rare_or_too_common_are_left_out(texts: list[list[str]], least: int, most: float) -> None:
    full = [text for text in texts if text]
    having = Counter(word for text in full for word in set(text))
    kept = sorted(word for word, count in having.items() if least <= count <= most * len(full))
    number = {word: i for i, word in enumerate(kept)}
    found = Bags.of_texts(texts).without(least, most)
    expected = [Counter(number[word] for word in text if word in number) for text in texts]
    assert found.vocabulary == len(kept)
    if kept:
        assert told(Documents.of(found)) == [one for one in expected if one]


@given(TEXTS, st.floats(0.05, 0.6), st.integers(0, 9))
def test_each_document_is_held_out_or_trained_on(texts: list[list[str]], share: float, seed: int) -> None:
    bags = Bags.of_texts(texts).without(1, 1.0)
    try:
        made = corpus(bags, share, seed, "mine")
    except SpecError as error:
        assert "are to be held out" in error.problem  # noqa: PT017
        return
    everything = told(Documents.of(bags))
    parts = told(made.train) + told(made.test)
    assert sorted(map(str, map(sorted, (one.items() for one in parts)))) == sorted(
        map(str, map(sorted, (one.items() for one in everything)))
    )
    assert len(made.test.lengths) == max(1, round(share * len(everything)))
    assert made.test.lengths.min() >= 2
    again = corpus(bags, share, seed, "mine")
    assert (again.test.words == made.test.words).all()
    assert (again.train.words == made.train.words).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 9))
def test_shards_have_all_documents_once_and_about_as_many_tokens(lengths: list[int], world: int, seed: int) -> None:
    sizes = np.array(lengths)
    if len(lengths) < world:
        with pytest.raises(SpecError, match="need one each"):
            shards(sizes, world, seed)
        return
    found = shards(sizes, world, seed)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    assert min(map(len, found)) >= 1
    tokens = [int(sizes[one].sum()) for one in found]
    assert max(tokens) - min(tokens) <= sizes.max()
    assert [one.tolist() for one in shards(sizes, world, seed)] == [one.tolist() for one in found]


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
