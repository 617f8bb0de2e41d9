"""Parts of a record as typed values, from JSON whose shape was checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from testbed.analysis.record.fields import NotNegative, Part, element, is_mapping, is_part, may_be_null, present

_P = TypeVar("_P", bound=Part)
_Convert = Callable[[Any], Any]


class _Step(NamedTuple):
    """Step that reads one field: under which keys its value is, how that becomes ours, and whether it must be there,
    and then may be null."""

    attribute: str
    keys: list[str]
    convert: _Convert | None
    is_required: bool
    is_null: bool


_PLANS: dict[type[Part], list[_Step]] = {}


def read(part: type[_P], raw: Mapping[str, Any] | None, **known: Any) -> _P:
    """A part from those keys of its JSON that it declares; a later version may write more. Null is as good as missing.
    What is ``known`` by attribute stands in place of what JSON has.

    Raises:
        KeyError: a field that a record must have is missing.
        TypeError, ValueError: something in it is damaged.
    """
    values = dict(known)
    now = part.current(raw or {})
    for attribute, keys, convert, is_required, is_null in _plan(part):
        if attribute in known:
            continue
        value: Any = now
        for key in keys:
            value = value[key] if is_required else (value or {}).get(key)
        if value is not None:
            values[attribute] = value if convert is None else convert(value)
        elif is_null:
            values[attribute] = None
        elif is_required:
            raise KeyError(keys[-1])
    return part(**values)


def _plan(part: type[Part]) -> list[_Step]:
    """Return the steps that read each field of a part that readers use."""
    if part not in _PLANS:
        _PLANS[part] = [
            _Step(
                field.attribute,
                field.key.split("."),
                _conversion(field.type),
                field.is_required,
                field.is_required and may_be_null(field.type),
            )
            for field in part.all_fields
            if field.attribute
        ]
    return _PLANS[part]


def _conversion(type_: Any) -> _Convert | None:
    known, into = present(type_), element(type_)
    if type_ in (float, NotNegative):
        return float  # JSON may have a whole number
    if is_part(known):
        return partial(read, known)
    if into is not None and is_mapping(known):
        return _numbered if get_args(known)[0] is int else dict
    if into is not None and get_origin(known) is tuple:
        inner = _conversion(into)
        return tuple if inner is None else lambda values: tuple(map(inner, values))
    return None


def _numbered(values: Mapping[str, Any]) -> dict[int, Any]:
    """Convert keys from text to numbers, as JSON has numbers as text only; leave out what is null."""
    return {int(number): value for number, value in values.items() if value is not None}
