"""Real English text with masked words: the language reference that Python ships for its ``help()``.

It is as lively as its subject, but it is prose, it is there wherever Python is, and nothing has to be installed: 79
topics with about 70,000 words. Other versions of Python ship other editions of it, so compare losses on one.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from testbed.base.errors import MissingToolError
from testbed.workloads.models.bert_tiny import TOKENS, WORDS

if TYPE_CHECKING:
    from torch import Tensor

MASK, UNKNOWN = 0, 1
MASKED = 5
"""Masked words of 32 in a row, 15 % as in Devlin et al. 2019, section 3.1. The same number in each, so that the mean
over all workers' samples is the mean of their means."""
NO_LABEL = -100
"""Label that PyTorch's cross-entropy leaves out."""


@cache
def python_reference() -> tuple[Tensor, Tensor]:
    """Make rows of 32 words, int64[n, 32], some masked, and labels int64[n, 32]: the word where masked, else
    ``NO_LABEL``.

    The masks are drawn once, as in the code of Devlin et al.

    Raises:
        MissingToolError: this Python comes without its documentation.
    """
    import torch

    words = re.findall(r"[a-z]+", "\n".join(help_topics("dataset")).lower())
    known = {word: number for number, (word, _) in enumerate(Counter(words).most_common(WORDS - 2), 2)}
    numbers = np.array([known.get(word, UNKNOWN) for word in words], np.int64)
    rows = numbers[: len(numbers) // TOKENS * TOKENS].reshape(-1, TOKENS)
    order = np.random.default_rng(0).random(rows.shape).argsort(axis=1)
    masked = order < MASKED
    return torch.from_numpy(np.where(masked, MASK, rows)), torch.from_numpy(np.where(masked, rows, NO_LABEL))


def help_topics(what: str) -> list[str]:
    """Return the texts of ``help()``, by the names of their topics; ``what`` of a spec asks for them.

    Raises:
        MissingToolError: this Python comes without its documentation.
    """
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        raise MissingToolError(
            f"{what} 'python_reference' is what Python's help() shows, and this Python comes without it",
            fix="install all of Python's standard library",
        ) from None
    return [topics[name] for name in sorted(topics)]
