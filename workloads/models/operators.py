"""Models that several servers can hold together: fully connected layers and embedding tables, each an operator with
a name, of which :mod:`testbed.workloads.parallel` says who holds it.

A sample is one row of floats. An operator without inputs takes a part of that row; another one takes the outputs of its
inputs, side by side. The module of the whole model has one child for each operator, of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

Tensors = tuple[tuple[str, tuple[int, ...]], ...]
"""Name and shape of each, as in the ``state_dict`` of the whole module."""


@dataclass(frozen=True)
class Table:
    """An embedding table: a sample takes one row, whose number is the sample's value at the place ``at``."""

    name: str
    at: int
    rows: int
    columns: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of inputs: none, for a table takes samples alone."""
        return ()

    @property
    def output_floats(self) -> int:
        return self.columns

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of a sample: a look-up adds each float of a row once."""
        return self.columns

    @property
    def tensors(self) -> Tensors:
        return ((f"{self.name}.weight", (self.rows, self.columns)),)

    def build(self) -> nn.Module:
        """Build the module: samples float[batch, values] to rows float[batch, columns]."""
        from torch import nn

        at = self.at

        class Rows(nn.Embedding):
            def forward(self, samples: Tensor) -> Tensor:
                return super().forward(samples[:, at].long())

        return Rows(self.rows, self.columns)


@dataclass(frozen=True)
class Dense:
    """A fully connected layer with a bias, and with a ReLU unless its outputs are scores.

    Attributes:
        inputs: names of the operators whose outputs it takes; without, it takes ``features`` of a sample's values.
        at: the place of the first of them.
    """

    name: str
    inputs: tuple[str, ...]
    features: int
    output_floats: int
    at: int = 0
    makes_scores: bool = False

    @property
    def columns(self) -> int:
        """Number of columns: 0, for it is no table."""
        return 0

    @property
    def multiply_adds(self) -> int:
        return self.features * self.output_floats

    @property
    def tensors(self) -> Tensors:
        return (
            (f"{self.name}.weight", (self.output_floats, self.features)),
            (f"{self.name}.bias", (self.output_floats,)),
        )

    def build(self) -> nn.Module:
        """Build the module: the inputs' outputs, float[batch, ...] each, or samples, to float[batch, output_floats]."""
        import torch
        from torch import nn

        values = slice(self.at, self.at + self.features)
        takes_samples, makes_scores = not self.inputs, self.makes_scores

        class Layer(nn.Linear):
            def forward(self, *inputs: Tensor) -> Tensor:
                outputs = super().forward(inputs[0][:, values] if takes_samples else torch.cat(inputs, 1))
                return outputs if makes_scores else torch.relu(outputs)

        return Layer(self.features, self.output_floats)


Operator = Table | Dense


def stack(name: str, inputs: Sequence[str], sizes: Sequence[int], at: int = 0) -> tuple[Dense, ...]:
    """Make layers ``name0``, ``name1``, ...; ``sizes`` are the first one's features and all outputs."""
    found: list[Dense] = []
    for features, outputs in pairwise(sizes):
        taken = (found[-1].name,) if found else tuple(inputs)
        found.append(Dense(f"{name}{len(found)}", taken, features, outputs, at))
    return tuple(found)


def head(inputs: Sequence[str], sizes: Sequence[int]) -> tuple[Dense, ...]:
    """Make the :func:`stack` ``dense0``, ``dense1``, ... that ends with scores."""
    *hidden, last = stack("dense", inputs, sizes)
    return (*hidden, replace(last, makes_scores=True))


def build(operators: Sequence[Operator]) -> nn.Module:
    """Build the module of all: samples float[batch, values] to what the last operator makes."""
    from torch import nn

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for operator in operators:
                self.add_module(operator.name, operator.build())

        def forward(self, samples: Tensor) -> Tensor:
            outputs: dict[str, Tensor] = {}
            for operator in operators:
                taken = [outputs[name] for name in operator.inputs] or [samples]
                outputs[operator.name] = self.get_submodule(operator.name)(*taken)
            return outputs[operators[-1].name]

    return Whole()
