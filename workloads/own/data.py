"""A user's own samples: loaded, checked, and split for training and the test."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from testbed.base.errors import SpecError
from testbed.topologies.call import Call, parse
from testbed.topologies.load import is_in_file, load_function
from testbed.workloads.data.datasets import split
from testbed.workloads.own import formats
from testbed.workloads.own.modules import called, seeded, siblings

EXAMPLE = "./data.py:load, mnist(path=./mnist) or cifar10(path=./cifar-10-batches-py)"
MOST_TESTED = 1000
"""Limit on the samples of the test set: the process that repeats a training classifies all of them up to 25 times."""
KINDS = (torch.float32, torch.uint8, torch.int64)
RETURNS = "(inputs, labels) or (inputs, labels, test_inputs, test_labels), all tensors or NumPy arrays of numbers"


@dataclass(frozen=True)
class Samples:
    """Samples for training and for the test: ``inputs`` are float32, int64, or uint8, scaled to -1 to 1 where they are
    used; ``labels`` int64."""

    inputs: Tensor
    labels: Tensor
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def loaded(text: str, seed: int) -> Samples:
    """Load the samples that an expression names. Chance in a user's function is drawn from ``seed``, as is the test set
    of data that comes without one.

    Raises:
        SpecError: there are none, or they cannot be trained on.
    """
    call = parse(text, EXAMPLE)
    seeded(seed)
    with siblings(call):
        found = called(
            call, load_function(call.name, SpecError) if is_in_file(call.name) else getattr(formats, call.name)
        )
    tensors = _tensors(call, found)
    inputs, labels = (torch.cat(tensors[i::2]) for i in (0, 1))
    if len(tensors) == 2:
        classes = labels.numpy() if labels.ndim == 1 else np.zeros(len(labels), np.int64)
        train, test = split(classes, seed)
    else:
        train, test = np.arange(len(tensors[0])), np.arange(len(tensors[0]), len(inputs))
    if not len(train) or not len(test):
        raise SpecError(
            f"{call.name} gives {len(train)} samples to train on and {len(test)} for the test",
            fix="give at least five samples of each class, or a test set",
        )
    if len(test) > MOST_TESTED:
        test = np.sort(np.random.default_rng(seed).choice(test, MOST_TESTED, replace=False))
    return Samples(inputs, labels, train, test)


def _tensors(call: Call, found: object) -> list[Tensor]:
    """Return two or four tensors of kinds and shapes that go together."""
    parts = list(map(_tensor, found)) if isinstance(found, tuple | list) else [found]
    tensors = [part.detach().cpu() for part in parts if isinstance(part, Tensor) and part.layout is torch.strided]
    if len(tensors) < len(parts) or len(tensors) not in (2, 4):
        given = ", ".join(map(form, parts[:5])) or "nothing"
        raise SpecError(f"{call.name} gives {given}", fix=f"have it return {RETURNS}")
    inputs = [_inputs(call, part) for part in tensors[::2]]
    labels = [_labels(call, part) for part in tensors[1::2]]
    for one, of in zip(inputs, labels, strict=True):
        if len(one) != len(of):
            raise SpecError(f"{call.name} gives {len(one)} inputs with {len(of)} labels", fix="give each input a label")
        if not len(one):
            raise SpecError(f"{call.name} gives no samples", fix=f"have it return {RETURNS}")
    for kind in (inputs, labels):
        if len({(part.shape[1:], part.dtype) for part in kind}) > 1:
            raise SpecError(
                f"{call.name} gives others for the test than for training: {' and '.join(map(form, kind))}",
                fix="give both the same type, and the same shape but for the number of samples",
            )
    return [part for pair in zip(inputs, labels, strict=True) for part in pair]


def _tensor(part: object) -> object:
    """Return an array of NumPy's as a tensor, if it can be one; anything else as it is."""
    if isinstance(part, np.ndarray):
        with suppress(TypeError):  # an array of a type that PyTorch does not have
            return torch.from_numpy(np.require(part, requirements="W"))
    return part


def _inputs(call: Call, part: Tensor) -> Tensor:
    if part.is_floating_point():
        part = part.float()
        wrong = int((~torch.isfinite(part)).sum())
        if wrong:
            raise SpecError(
                f"{call.name} gives inputs with {wrong:,} values that are no finite numbers",
                fix="remove or replace them",
            )
    elif part.dtype == torch.int32:
        part = part.long()
    if part.ndim < 2 or part.dtype not in KINDS:
        raise SpecError(
            f"{call.name} gives inputs {form(part)}",
            fix="give float32 values, uint8 pixels or int64 tokens, of the shape [samples, ...]",
        )
    return part.contiguous()


def _labels(call: Call, part: Tensor) -> Tensor:
    if part.is_floating_point() or part.is_complex() or part.dtype == torch.bool or part.ndim < 1:
        raise SpecError(f"{call.name} gives labels {form(part)}", fix="give the number of each sample's class")
    return part.long().contiguous()


def form(one: object) -> str:
    """Describe a tensor as ``float32[16, 3, 32, 32]``; name the type of anything else."""
    if not isinstance(one, Tensor):
        return type(one).__name__
    return f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}"
