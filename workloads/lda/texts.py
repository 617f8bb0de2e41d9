"""Documents of real English text that come with software, as lists of words."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from testbed.base.errors import MissingToolError
from testbed.base.extras import pip
from testbed.workloads.data.text import help_topics

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
