"""Shapes that JSON of others must have before anything is made of it.

A shape is a kind of value, ``[shape]`` for a list, ``[]`` for one of anything, :class:`Listed` for a list of bounded
length, or an object's keys with their shapes.
Among these :data:`EACH` stands for all that are not named, and :data:`NO_NULL` for the same, none of which is null. A
key that is named may be missing, or be null, which is the same; who needs it asks for it. Keys that a shape does not
have may be anything: a later version may write more.

Pydantic decodes what hosts say (:mod:`testbed.lab.baremetal.controller.answers`). Here values stay as they are, and to
put its messages into our words would take more code than this module has (see :mod:`testbed.spec.explain`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

EACH, NO_NULL = "*", "+"


@dataclass(frozen=True)
class Kind:
    """A kind of value, and whether a value is one."""

    name: str
    has: Callable[[object], bool]


Shape: TypeAlias = "Kind | Listed | Sequence[Shape] | Mapping[str, Shape]"


@dataclass(frozen=True)
class Listed:
    """A list of at most so many values, each of a shape."""

    shape: Shape
    most: int


LONGEST_TEXT = 2**20
LONGEST_NAME = 2**15
"""The most characters of a name. Names stand in tables, whose columns are as wide as the longest; a topology is as long
at most."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TEXT = Kind("text", lambda value: isinstance(value, str) and len(value) <= LONGEST_TEXT)
NAME = Kind("name", lambda value: isinstance(value, str) and len(value) <= LONGEST_NAME)
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("finite number", lambda value: is_number(value) and abs(value) <= sys.float_info.max)
NUMBER_OR_NULL = Kind("finite number or null", lambda value: value is None or NUMBER.has(value))
NOT_NEGATIVE = Kind("finite number from 0 on", lambda value: is_number(value) and 0 <= value <= sys.float_info.max)
COUNT = Kind("whole number from 0 on", lambda value: type(value) is int and value >= 0)
PLAIN = Kind("text or number", lambda value: isinstance(value, str | int | float))
OBJECT: Shape = {}


def count_to(most: int) -> Kind:
    """Make the kind of a count that has a bound, because something is made as often."""
    return Kind(f"whole number from 0 to {most:,}", lambda value: type(value) is int and 0 <= value <= most)


def check(value: object, shape: Shape, where: str = "it") -> None:
    """Compare ``value`` with a shape; ``where`` is what it is called.

    Raises:
        ValueError: it has another; names the first place that differs.
    """
    if isinstance(shape, Kind):
        if not shape.has(value):
            raise ValueError(f"{where} is {value!r:.40}, no {shape.name}")
    elif isinstance(shape, Listed):
        check(value, [shape.shape], where)
        if isinstance(value, list) and len(value) > shape.most:
            raise ValueError(f"{where} has {len(value):,} values, more than {shape.most:,}")
    elif isinstance(shape, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {value!r:.40}, no object")
        for key, inner in value.items():
            of = shape.get(key, shape.get(EACH, shape.get(NO_NULL)))
            if of is not None and (inner is not None or NO_NULL in shape):
                check(inner, of, f"{where}.{key}" if where != "it" else key)
    else:
        if not isinstance(value, list):
            raise ValueError(f"{where} is {value!r:.40}, no list")
        for i, inner in enumerate(value if shape else ()):
            check(inner, shape[0], f"{where}.{i}")
