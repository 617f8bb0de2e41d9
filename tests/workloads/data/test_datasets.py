"""The digits: shape, range, and a split that keeps every class's share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from testbed.base.errors import MissingToolError, SpecError
from testbed.workloads.data import datasets
from testbed.workloads.data.datasets import TEST_SHARE, digits, load, split


def test_digits_are_the_real_ones_in_the_models_shape() -> None:
    images, labels = digits()
    assert images.shape == (1797, 1, 28, 28)
    assert images.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert float(images.min()) == -1
    assert float(images.max()) <= 1
    assert sorted(labels.unique().tolist()) == list(range(10))
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits  # here, for one process of several needs it, and it takes two seconds

    theirs = load_digits()
    small = torch.from_numpy(theirs.images.astype(np.float32)).unsqueeze(1) / 8 - 1
    assert torch.equal(digits()[0], interpolate(small, size=(28, 28), mode="bilinear", align_corners=False))
    assert digits()[1].tolist() == theirs.target.tolist()


def test_without_scikit_learn_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "find_spec", lambda _name: None)
    with pytest.raises(MissingToolError) as caught:
        digits.__wrapped__()
    assert str(caught.value) == (
        "dataset 'digits' is part of scikit-learn, which is not installed\n  fix: pip install scikit-learn"
    )


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_split_is_stratified_and_complete(seed: int) -> None:
    labels = digits()[1].numpy()
    train, test = split(labels, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    for label in range(10):
        share = np.sum(labels[test] == label) / np.sum(labels == label)
        assert share == pytest.approx(TEST_SHARE, abs=0.005)


def test_split_follows_the_seed() -> None:
    labels = digits()[1].numpy()
    assert np.array_equal(split(labels, 3)[1], split(labels, 3)[1])
    assert not np.array_equal(split(labels, 3)[1], split(labels, 4)[1])


def test_images_are_loaded_once() -> None:
    assert load("digits", 1) is load("digits", 1)
    assert load("digits", 1).images is load("digits", 2).images


def test_unknown_dataset_names_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        load("digit", 1)
    assert str(caught.value) == (
        "unknown dataset 'digit'; there is clicks, digits, python_reference, responses\n  fix: did you mean 'digits'?"
    )
