"""A corpus on its way to workers: it is read once, while a trial is planned, and each trial gets a copy of its files.

So workers need neither the user's file nor gensim, all have the same words, and a file that is changed while a run goes
on changes nothing in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import pip
from testbed.topologies.load import check_open
from testbed.workloads.data.datasets import help_topics
from testbed.workloads.job import TopicModel
from testbed.workloads.lda.corpus import MOST_TOKENS, Bags, Corpus, Documents, corpus, read_docword, shards, too_large
from testbed.workloads.own.prepared import FACTS, Prepared
from testbed.workloads.registry import lookup

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
        raise too_large(asked.name)
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
        return read_docword(folder / asked.name, asked.name, asked.documents)
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


WORD = re.compile(r"[a-z]{3,}")
"""A word: a run of at least three letters. Shorter ones are mostly parts of words (``don't``) and names of
variables."""
LEE = ("lee_background.cor", "lee.cor")
"""Files with 300 and 50 news of the Australian Broadcasting Corporation, one a line (Lee, Pincombe, Welsh 2005)."""
LEAST_WORDS = 100
"""Least words of a document of ``python_reference``, as a topic of ``help()`` may be as long as a chapter."""


def lee() -> list[list[str]]:
    """Load the Lee corpus, which is among the test data of the package gensim: 350 documents.

    Importing gensim takes seconds and needs packages that its data does not, so the files are read alone.

    Raises:
        MissingToolError: gensim is not installed, or comes without these files.
    """
    fix = f"{pip()} install gensim, or take corpus: python_reference"
    package = find_spec("gensim")  # finds without importing
    if package is None or package.origin is None:
        raise MissingToolError("corpus 'lee' is part of the package gensim, which is not installed", fix=fix)
    folder = Path(package.origin).parent / "test" / "test_data"
    try:
        lines = [line for name in LEE for line in (folder / name).read_text("latin-1").splitlines()]
    except OSError as error:
        problem = f"corpus 'lee' is part of the package gensim, which comes without it here: {error}"
        raise MissingToolError(problem, fix=fix) from None
    return [words(line) for line in lines]


def python_reference() -> list[list[str]]:
    """Load the language reference that Python ships for its ``help()``, in pieces of whole paragraphs.

    Raises:
        MissingToolError: this Python comes without its documentation.
    """
    found: list[list[str]] = []
    for topic in help_topics("corpus"):
        found.append([])
        for paragraph in re.split(r"\n\s*\n", topic):
            if len(found[-1]) >= LEAST_WORDS:
                found.append([])
            found[-1] += words(paragraph)
    return found


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case."""
    return WORD.findall(text.lower())


TEXTS: dict[str, Callable[[], list[list[str]]]] = {"lee": lee, "python_reference": python_reference}
"""Corpora that need no file of the user's."""
