"""The text: words of Python's reference, and masks that are the same number in every row."""

from __future__ import annotations

import sys

import pytest
import torch

from testbed.base.errors import MissingToolError
from testbed.workloads.data import datasets
from testbed.workloads.data.datasets import load
from testbed.workloads.models.bert_tiny import TOKENS, WORDS


def test_rows_of_words_with_five_masked_in_each() -> None:
    words, labels = datasets.python_reference()
    assert words.shape == labels.shape
    assert words.shape[1] == TOKENS
    assert len(words) > 500
    assert int(words.min()) == datasets.MASK
    assert int(words.max()) == WORDS - 1
    masked = labels != datasets.NO_LABEL
    assert masked.sum(1).tolist() == [datasets.MASKED] * len(words)
    assert torch.equal(words == datasets.MASK, masked)
    assert int(labels[masked].min()) >= datasets.UNKNOWN


def test_it_is_english() -> None:
    """The commonest words are known, and few are not."""
    words, labels = datasets.python_reference()
    whole = torch.where(labels == datasets.NO_LABEL, words, labels)
    assert float((whole == datasets.UNKNOWN).double().mean()) < 0.15
    assert {"the", "of", "object", "statement"} <= set(" ".join(datasets.help_topics("dataset")).split())


def test_a_fifth_is_for_testing() -> None:
    data = load("python_reference", 1)
    assert len(data.test) == round(0.2 * len(data.images))
    assert data.input_shape == (TOKENS,)
    assert data.outputs == WORDS


def test_a_python_without_its_documentation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(MissingToolError, match="comes without it"):
        datasets.python_reference.__wrapped__()
