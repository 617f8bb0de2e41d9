"""A corpus on its way to workers: it is read once, while a trial is planned, and each trial gets a copy of its files.

So workers need neither the user's file nor gensim, all have the same words, and a file that is changed while a run goes
on changes nothing in it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from testbed.base.errors import SpecError
from testbed.topologies.load import check_open
from testbed.workloads.lda import docword, texts
from testbed.workloads.lda.corpus import MOST_TOKENS, Bags, Corpus, Documents, corpus, shards
from testbed.workloads.lda.task import TopicModel
from testbed.workloads.own.prepared import FACTS, Prepared
from testbed.workloads.registry import lookup

TEXTS: dict[str, Callable[[], list[list[str]]]] = {"lee": texts.lee, "python_reference": texts.python_reference}
"""Corpora that need no file of the user's."""
DIGITS = 16
"""Hexadecimal digits of a digest."""
_ARRAYS = ("train_words", "train_lengths", "test_words", "test_lengths")


@dataclass(frozen=True)
class Asked:
    """The corpus that a spec asks for, and which of its documents and words are taken.

    Attributes:
        documents: the first ones of a file; None for all.
        least_documents, most_documents: how many documents must have a word, and what share of them may.
        held_out: share of the documents.
    """

    name: str
    documents: int | None
    least_documents: int
    most_documents: float
    held_out: float
    seed: int


@dataclass(frozen=True, eq=False)
class PreparedCorpus(Prepared):
    """A corpus for trials.

    Attributes:
        documents: to train on.
        most_of_a_word: tokens of the most frequent word in them; no count is larger.
    """

    documents: int = 0
    most_of_a_word: int = 0


def prepare(folder: Path, asked: Asked, topics: int) -> PreparedCorpus:
    """Read a corpus; the path of a file is taken from ``folder``.

    Raises:
        SpecError: there is no such corpus, or it cannot be used.
        MissingToolError: a package that has it is not installed.
    """
    bags = _bags(folder, asked)
    if int(bags.counts.sum()) > MOST_TOKENS:
        raise docword.too_large(asked.name)
    content = hashlib.sha256(b"".join(one.tobytes() for one in (bags.documents, bags.words, bags.counts)))
    made = corpus(bags.without(asked.least_documents, asked.most_documents), asked.held_out, asked.seed, asked.name)
    documents, most = len(made.train.lengths), int(np.bincount(made.train.words).max())
    facts = {"vocabulary": made.vocabulary, "documents": documents, "tokens": len(made.train.words)}
    arrays = (made.train.words, made.train.lengths, made.test.words, made.test.lengths)
    files = {FACTS: json.dumps(facts).encode()}
    files |= {f"{name}.npy": _npy(one.astype(np.int32)) for name, one in zip(_ARRAYS, arrays, strict=True)}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:DIGITS]
    layers = ((("word_topic", (made.vocabulary, topics)),),)
    inputs = {f"corpus {asked.name}": content.hexdigest()[:DIGITS]}
    return PreparedCorpus(layers, inputs, digest, files, documents, most)


def _bags(folder: Path, asked: Asked) -> Bags:
    if is_file(asked.name):
        check_open(asked.name, SpecError)
        return docword.read(folder / asked.name, asked.name, asked.documents)
    found = lookup("corpus", asked.name, TEXTS)()
    return Bags.of_texts(found[: asked.documents])


def is_file(name: str) -> bool:
    """Whether a corpus is a file of the user's: its name has a folder or an ending."""
    return "/" in name or "." in name


def _npy(array: np.ndarray[tuple[int], np.dtype[np.int32]]) -> bytes:
    into = io.BytesIO()
    np.save(into, array, allow_pickle=False)
    return into.getvalue()


def load(model: TopicModel) -> Corpus:
    """Load the corpus of a job, from the files that its trial got."""
    folder = Path(model.own[0]).parent
    arrays = [np.load(folder / f"{name}.npy", allow_pickle=False).astype(np.int64) for name in _ARRAYS]
    return Corpus(Documents(*arrays[:2]), Documents(*arrays[2:]), model.words)


def dealt(model: TopicModel, world: int) -> list[Documents]:
    """Return each worker's documents."""
    train = load(model).train
    return [train.select(chosen) for chosen in shards(train.lengths, world, model.seed)]
