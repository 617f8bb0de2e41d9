"""Labelled samples to train on: images, text, or rows of values. Loaded once per process and shared by processes forked
after that.

Importing this does not import torch, so that planning a run can check a data set's name quickly.

No log of clicks and no study of drugs can be downloaded where trials run, so two data sets are generated. They have the
same form: the label is drawn with a probability that a hidden model finds from the sample, so it can be learnt, but
never for certain. They are the same for all experiments, whose seeds only split them.

The text is the language reference that Python ships for its ``help()``, with masked words. It is as lively as its
subject, but it is prose, it is there wherever Python is, and nothing has to be installed: 79 topics with about 70,000
words. Other versions of Python ship other editions of it, so compare losses on one.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MissingToolError
from testbed.base.extras import pip
from testbed.workloads.models import candle_tiny, dlrm_tiny
from testbed.workloads.models.bert_tiny import TOKENS, WORDS
from testbed.workloads.registry import lookup

if TYPE_CHECKING:
    from torch import Tensor

SAMPLES = 60_000
CLICKED = 0.25
"""Share of the samples of which a click is likelier than none."""
ZIPF = 1.5
"""The r-th row of a table has a frequency of r^-ZIPF: a few rows are in most samples, and most are in few."""
CERTAINTY = 4.0
"""Standard deviation of the log-odds of a label."""
_SEED = 18
_HIDDEN = 16
"""Number of hidden units."""

Floats = NDArray[np.float32]
Values = NDArray[np.float64]


@cache
def clicks() -> tuple[Tensor, Tensor]:
    """Generate samples of 16 features and the numbers of 8 rows, float32[60000, 24], and labels int64[60000], 1 for a
    click.

    Each row has a worth; the rows' worths and a hidden network's output count the same.
    """
    random = np.random.default_rng(_SEED)
    frequency = np.arange(1, dlrm_tiny.ROWS + 1) ** -ZIPF
    drawn = random.random((SAMPLES, dlrm_tiny.TABLES))
    rows = np.searchsorted(np.cumsum(frequency) / frequency.sum(), drawn).clip(max=dlrm_tiny.ROWS - 1)
    worth = random.standard_normal((dlrm_tiny.TABLES, dlrm_tiny.ROWS))
    features = random.standard_normal((SAMPLES, dlrm_tiny.FEATURES), np.float32)
    score = _normal(worth[np.arange(dlrm_tiny.TABLES), rows].sum(1)) + _normal(_hidden(random, features).sum(1))
    return _labelled(random, np.hstack([features, rows.astype(np.float32)]), score, CLICKED)


@cache
def responses() -> tuple[Tensor, Tensor]:
    """Generate samples of 32 features of a drug and 32 of a cell, float32[60000, 64], and labels int64[60000], 1 if the
    cell responds.

    A hidden network's outputs for the drug and another's for the cell count, and so do their products.
    """
    random = np.random.default_rng(_SEED)
    features = random.standard_normal((SAMPLES, 2, candle_tiny.FEATURES), np.float32)
    drug, cell = _hidden(random, features[:, 0]), _hidden(random, features[:, 1])
    score = (drug + cell + drug * cell).sum(1)
    return _labelled(random, features.reshape(SAMPLES, -1), score, 0.5)


def _hidden(random: np.random.Generator, features: Floats) -> Values:
    """Compute float64[samples, hidden units] of a random layer: float32 would round otherwise on other processors."""
    weights = random.standard_normal((features.shape[1], _HIDDEN)) / np.sqrt(features.shape[1])
    outputs: Values = np.tanh(2 * features @ weights) * random.standard_normal(_HIDDEN)
    return outputs


def _normal(score: Values) -> Values:
    found: Values = (score - score.mean()) / score.std()
    return found


def _labelled(random: np.random.Generator, samples: Floats, score: Values, likely: float) -> tuple[Tensor, Tensor]:
    """Draw labels; ``likely`` is the share of samples of which label 1 is likelier than 0."""
    import torch

    standing = _normal(score)
    odds = CERTAINTY * (standing - np.quantile(standing, 1 - likely))
    labels = random.random(len(score)) < 1 / (1 + np.exp(-odds))
    return torch.from_numpy(samples), torch.from_numpy(labels.astype(np.int64))


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


TEST_SHARE = 0.2
"""Share of each class that is kept for the test."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and their labels, and which of the n are for training and testing.

    ``images`` are float32[n, channels, height, width] with labels int64[n], words int64[n, length] with labels
    int64[n, length], or float32[n, values] with labels int64[n].
    """

    name: str
    images: Tensor
    labels: Tensor
    outputs: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.images.shape[1:])

    def select(self, indices: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Copy the images and labels at ``indices``; pixels that are bytes become floats from -1 to 1."""
        import torch

        rows = torch.from_numpy(indices)
        images = self.images[rows]
        if images.dtype == torch.uint8:
            images = images.float().div_(127.5).sub_(1)
        return images, self.labels[rows]


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Load the 1,797 handwritten digits that scikit-learn ships (UCI ML, 8x8, 0 to 16), as 28x28 images from -1 to 1.

    Raises:
        MissingToolError: scikit-learn is not installed.
    """
    import torch
    from torch.nn.functional import interpolate

    table = np.loadtxt(_digits_file(), delimiter=",", dtype=np.float32)
    small = torch.from_numpy(table[:, :-1]).reshape(-1, 1, 8, 8) / 8 - 1
    images = interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    return images, torch.from_numpy(table[:, -1].astype(np.int64))


def _digits_file() -> Path:
    """Return the file that ``sklearn.datasets.load_digits`` reads: importing that function takes longer than importing
    torch, and 140 MB in the process that every worker is forked from."""
    package = find_spec("sklearn")  # finds without importing
    if package is None or package.origin is None:
        raise MissingToolError(
            "dataset 'digits' is part of scikit-learn, which is not installed", fix=f"{pip()} install scikit-learn"
        )
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


DATASETS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "digits": digits,
    "python_reference": python_reference,
    "clicks": clicks,
    "responses": responses,
}


@cache
def load(name: str, seed: int) -> Dataset:
    """Load the data set called ``name``, split into training and test images by ``seed``.

    Raises:
        SpecError: no such data set.
    """
    images, labels = lookup("dataset", name, DATASETS)()
    train, test = split(labels.numpy() if labels.ndim == 1 else np.zeros(len(labels), np.int64), seed)
    highest = labels.max() if labels.ndim == 1 else max(images.max(), labels.max())
    return Dataset(name, images, labels, int(highest) + 1, train, test)


def split(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose indices for training and for testing, each sorted; ``TEST_SHARE`` of every class, at random, is for
    testing."""
    random = np.random.default_rng(seed)
    test = []
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        test.append(members[: round(TEST_SHARE * len(members))])
    chosen = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen
