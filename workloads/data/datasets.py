"""Labelled samples to train on: images, text, or rows of values. Loaded once per process and shared by processes
forked after that.

Importing this does not import torch, so that planning a run can check a data set's name quickly.
"""

from __future__ import annotations

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
from testbed.workloads.data import generated, text
from testbed.workloads.registry import lookup

if TYPE_CHECKING:
    from torch import Tensor

TEST_SHARE = 0.2
"""Share of each class that is kept for the test."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and their labels, and which of the n are for training and testing.

    ``images`` are float32[n, channels, height, width] with labels int64[n], words int64[n, length] with labels
    int64[n, length] (:mod:`testbed.workloads.data.text`), or float32[n, values] with labels int64[n]
    (:mod:`testbed.workloads.data.generated`).
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
    "python_reference": text.python_reference,
    "clicks": generated.clicks,
    "responses": generated.responses,
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
