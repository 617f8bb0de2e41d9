"""A user's own samples: loaded, checked, and split for training and the test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from testbed.base.errors import SpecError
from topologies.call import Call, parse
from topologies.load import is_in_file
from workloads.datasets import split
from workloads.own import formats
from workloads.own.code import called, function_of, siblings
from workloads.own.modules import seeded

EXAMPLE = "./data.py:load, mnist(path=./mnist) or cifar10(path=./cifar-10-batches-py)"
MOST_TESTED = 1000
"""Samples of the test set: the process that repeats a training classifies all of them up to 25 times."""
KINDS = (torch.float32, torch.uint8, torch.int64)
RETURNS = "(inputs, labels) or (inputs, labels, test_inputs, test_labels), all tensors"


@dataclass(frozen=True)
class Samples:
    """All samples of a data set, and which of them are for training and for the test.

    ``inputs`` are float32, int64, or uint8, which are scaled to -1 to 1 where they are used; ``labels`` int64.
    """

    inputs: Tensor
    labels: Tensor
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def loaded(text: str, seed: int) -> Samples:
    """The samples that an expression names. Chance in a user's function is drawn from ``seed``, as is the test set of
    data that comes without one.

    Raises:
        SpecError: there are none, or they cannot be trained on.
    """
    call = parse(text, EXAMPLE)
    seeded(seed)
    with siblings(call):
        found = called(call, function_of(call) if is_in_file(call.name) else getattr(formats, call.name))
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
    """Two or four tensors of kinds and shapes that go together."""
    parts = (
        [
            torch.from_numpy(np.require(part, requirements="W")) if isinstance(part, np.ndarray) else part
            for part in found
        ]
        if isinstance(found, tuple | list)
        else []
    )
    if len(parts) not in (2, 4) or not all(isinstance(part, Tensor) for part in parts):
        raise SpecError(f"{call.name} gives {_described(found)}", fix=f"have it return {RETURNS}")
    parts = [part.detach().cpu() for part in parts]
    inputs = [_inputs(call, part) for part in parts[::2]]
    labels = [_labels(call, part) for part in parts[1::2]]
    for one, of in zip(inputs, labels, strict=True):
        if len(one) != len(of):
            raise SpecError(f"{call.name} gives {len(one)} inputs with {len(of)} labels", fix="give each input a label")
        if not len(one):
            raise SpecError(f"{call.name} gives no samples", fix=f"have it return {RETURNS}")
    for kind in (inputs, labels):
        if len({(part.shape[1:], part.dtype) for part in kind}) > 1:
            shapes = " and ".join(f"{part.dtype}{list(part.shape)}" for part in kind)
            raise SpecError(
                f"{call.name} gives tensors for training and for the test that differ: {shapes}",
                fix="give both the same shape, but for the number of samples, and type",
            )
    return [part for pair in zip(inputs, labels, strict=True) for part in pair]


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
            f"{call.name} gives inputs {part.dtype}{list(part.shape)}",
            fix="give float32 values, uint8 pixels or int64 tokens, of the shape [samples, ...]",
        )
    return part.contiguous()


def _labels(call: Call, part: Tensor) -> Tensor:
    if part.is_floating_point() or part.is_complex() or part.dtype == torch.bool or part.ndim < 1:
        raise SpecError(
            f"{call.name} gives labels {part.dtype}{list(part.shape)}", fix="give the number of each sample's class"
        )
    return part.long().contiguous()


def _described(found: object) -> str:
    """What something is, in few words."""
    if isinstance(found, tuple | list):
        kinds = [
            f"{one.dtype}{list(one.shape)}" if isinstance(one, Tensor) else type(one).__name__ for one in found[:5]
        ]
        return f"{len(found)} values: {', '.join(kinds)}"
    return type(found).__name__
