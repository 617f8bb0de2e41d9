"""Operators, of which a model is made: each has inputs, tensors, multiply-adds and an output.

TopoOpt places operators on servers (section 3.2), as FlexFlow does. An operator is a layer, a block of layers, or an
embedding table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from testbed.base.errors import SpecError

FLOAT_BYTES = 4
REST = "rest"
"""Word in a strategy for all operators that it does not name. No operator has that name."""


@dataclass(frozen=True, slots=True)
class Operator:
    """
    Attributes:
        inputs: names of the operators whose outputs it takes; an operator without takes samples.
        tensors: bytes of each of its weight tensors.
        multiply_adds: of one sample's forward pass.
        output_floats: of one sample.
        columns: of an embedding table, 0 for anything else.
    """

    name: str
    inputs: tuple[str, ...]
    tensors: tuple[int, ...]
    multiply_adds: int
    output_floats: int
    columns: int = 0

    @property
    def weight_bytes(self) -> int:
        return sum(self.tensors)

    @property
    def output_bytes(self) -> int:
        """Bytes of one sample's output, forward; a gradient that goes back has as many."""
        return self.output_floats * FLOAT_BYTES


@dataclass(frozen=True)
class Model:
    """Operators in an order in which a forward pass can compute them; :func:`model` checks that.

    Attributes:
        samples: those of a batch that each server brings.
        source: table or section that it is from.
        assumed: sizes that the source lacks, in words.
    """

    name: str
    operators: tuple[Operator, ...]
    samples: int
    source: str = ""
    assumed: tuple[str, ...] = ()

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Place of each operator, by name."""
        return {operator.name: place for place, operator in enumerate(self.operators)}

    @cached_property
    def multiply_adds(self) -> int:
        """Multiply-adds of one sample's forward pass."""
        return sum(operator.multiply_adds for operator in self.operators)

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Places of each operator's inputs."""
        return tuple(tuple(self.index[name] for name in operator.inputs) for operator in self.operators)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Places of the operators that take each operator's output."""
        found: list[list[int]] = [[] for _ in self.operators]
        for place, inputs in enumerate(self.inputs):
            for one in inputs:
                found[one].append(place)
        return tuple(map(tuple, found))


def model(checked: Model) -> Model:
    """Check a model, and return it.

    Raises:
        SpecError: two operators have one name, an input is missing or comes later, or a size is out of range.
    """
    if not checked.operators or checked.samples < 1:
        raise SpecError(
            f"{checked.name} has {len(checked.operators)} operators and batches of {checked.samples} a server",
            fix="give at least one of each",
        )
    seen: set[str] = {REST}
    for operator in checked.operators:
        if operator.name in seen:
            raise SpecError(
                f"{checked.name} has an operator {operator.name!r} that is named like another, or like all others",
                fix=f"give each operator a name of its own, not {REST}",
            )
        for name in operator.inputs:
            if name not in seen - {REST} or operator.inputs.count(name) > 1:
                raise SpecError(
                    f"{checked.name}: {operator.name} takes the output of {name!r}, which does not come before it once",
                    fix="list operators in the order of the forward pass, and each input once",
                )
        if min(operator.multiply_adds, *operator.tensors, 0) < 0 or operator.output_floats < 1:
            raise SpecError(
                f"{checked.name}: {operator.name} has a size below 0, or no output",
                fix="give bytes and multiply-adds of 0 or more, and at least one float of output",
            )
        seen.add(operator.name)
    return checked


def cut(whole: Model, parts: int) -> Model:
    """Cut each embedding table of a model by columns: ``e0`` becomes ``e0.0``, ``e0.1``, ...

    Each part has all rows and its share of the columns, so each sample needs all parts.

    Raises:
        SpecError: the columns of a table cannot be divided so, or there are no tables.
    """
    tables = {operator.name: operator for operator in whole.operators if operator.columns}
    if parts < 1 or not tables:
        raise SpecError(
            f"{whole.name} has {len(tables)} tables to cut into {parts} parts each",
            fix="cut a model with embedding tables, into 1 part or more",
        )
    for table in tables.values():
        if table.columns % parts:
            raise SpecError(
                f"{whole.name}: the {table.columns} columns of {table.name} make no {parts} equal parts",
                fix=f"give a divisor of {table.columns}",
            )
    if parts == 1:
        return whole
    pieces = {name: _pieces(table, parts) for name, table in tables.items()}
    names = {name: [piece.name for piece in made] for name, made in pieces.items()}
    found: list[Operator] = []
    for operator in whole.operators:
        inputs = tuple(piece for name in operator.inputs for piece in names.get(name, [name]))
        found += pieces.get(operator.name) or [replace(operator, inputs=inputs)]
    return model(replace(whole, operators=tuple(found)))


def _pieces(table: Operator, parts: int) -> Sequence[Operator]:
    piece = replace(
        table,
        tensors=tuple(size // parts for size in table.tensors),
        multiply_adds=table.multiply_adds // parts,
        output_floats=table.output_floats // parts,
        columns=table.columns // parts,
    )
    return [replace(piece, name=f"{table.name}.{part}") for part in range(parts)]


def scaled(model: Model, scale: float) -> Model:
    """Divide weights and outputs by ``scale``, in whole floats, at least one of each. Computing is left as it is: with
    the rates of links divided as well, all times stay the same."""
    operators = tuple(
        replace(
            one,
            tensors=tuple(FLOAT_BYTES * max(1, round(size / FLOAT_BYTES / scale)) for size in one.tensors),
            output_floats=max(1, round(one.output_floats / scale)),
        )
        for one in model.operators
    )
    return replace(model, operators=operators)
