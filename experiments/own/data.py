"""Data of one's own: a function that returns inputs and labels, and, where they are apart, those for the test."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import interpolate

TEST = 100


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """scikit-learn's 1,797 digits (8 x 8, from 0 to 16) as float32 images [n, 3, 32, 32] from -1 to 1."""
    found = load_digits()
    small = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    images = interpolate(small, size=(32, 32), mode="bilinear", align_corners=False).expand(-1, 3, -1, -1)
    labels = torch.tensor(found.target)
    return images[:-TEST], labels[:-TEST], images[-TEST:], labels[-TEST:]
