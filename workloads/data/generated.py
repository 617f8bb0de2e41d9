"""Data sets that are generated, with labels that a hidden model draws.

No log of clicks and no study of drugs can be downloaded where trials run. These have the same form: the label is drawn
with a probability that a hidden model finds from the sample, so it can be learnt, but never for certain. They are the
same for all experiments, whose seeds only split them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.models import candle_tiny, dlrm_tiny

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
    """Compute float64[samples, hidden units] of a layer with random weights. Rounding errors of other processors'
    float32 would change labels."""
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
