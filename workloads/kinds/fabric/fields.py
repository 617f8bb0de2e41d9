"""Fields of the data that a program gives: each must be of the type that its dataclass says. NumPy's numbers are
numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

from testbed.base.errors import SpecError

_MOST_BITS = 63


def whole(value: Any) -> int:
    """Raises TypeError: it is no whole number; OverflowError: it is one of more than 63 bits."""
    if isinstance(value, bool):
        raise TypeError
    found = operator.index(value)
    if found.bit_length() > _MOST_BITS:
        raise OverflowError
    return found


def number(value: Any) -> float:
    """Raises TypeError: it is no number; OverflowError: it is too large for a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    return float(value)


def shown(value: object) -> str:
    """Show a value in a message, however long it is."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _exactly(kind: type) -> Callable[[Any], Any]:
    def same(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return same


_TYPES: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "int": (whole, "a whole number below 2**63"),
    "float": (number, "a number"),
    "bool": (_exactly(bool), "True or False"),
    "str": (_exactly(str), "text"),
}
"""Converter for each annotation of a field, and the words for what the value must be."""


def convert(given: Any) -> None:
    """Convert the values of a frozen dataclass to its fields' types.

    Raises:
        SpecError: a value is of another type.
    """
    for field in fields(given):
        value, annotation = getattr(given, field.name), str(field.type)
        if value is None and annotation.endswith(" | None"):
            continue
        to_type, wanted = _TYPES[annotation.removesuffix(" | None")]
        try:
            object.__setattr__(given, field.name, to_type(value))
        except (TypeError, ValueError, OverflowError):
            raise SpecError(
                f"{type(given).__name__} has {field.name} of {shown(value)}", fix=f"give {field.name} {wanted}"
            ) from None
