"""The one-line notation for a topology or a scheme: ``bcube(n=3,k=2)``, ``ring``, ``./mine.py:my_scheme(depth=2)``.

A value is a number, ``true``, ``false``, a bare word, or a list of values: ``multi_ring(strides=[1,5])``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.errors import SpecError

Value = int | float | bool | str | tuple["Value", ...]
"""A list is a tuple, so that no one can change it afterwards."""

_CALL = re.compile(r"\s*(?P<name>[^()\s]+)\s*(?:\((?P<args>[^()]*)\))?\s*")
_ARGUMENT = re.compile(r"\s*(?P<key>[A-Za-z_]\w*)\s*=(?P<value>[^=]+)")
_WORD = re.compile(r"[^\s,=\[\]]+")
_WORDS: dict[str, Value] = {"true": True, "false": False}


@dataclass(frozen=True)
class Call:
    """A name and keyword arguments, in the order written."""

    name: str
    arguments: dict[str, Value]

    def __str__(self) -> str:
        inside = ",".join(f"{key}={as_text(value)}" for key, value in self.arguments.items())
        return f"{self.name}({inside})" if inside else self.name


def parse(text: str, example: str) -> Call:
    """Read ``name`` or ``name(key=value,...)``.

    Raises:
        SpecError: the text has another form; ``example`` is shown as a right one.
    """
    match = _CALL.fullmatch(text)
    if not match:
        raise SpecError(f"cannot read {text!r}", fix=f"write it as {example}")
    arguments: dict[str, Value] = {}
    inside = match["args"] or ""
    for piece in _pieces(inside) if inside.strip() else []:
        argument = _ARGUMENT.fullmatch(piece)
        value = _value(argument["value"]) if argument else None
        if argument is None or value is None:
            raise SpecError(f"cannot read the argument {piece.strip()!r} in {text!r}", fix=f"write it as {example}")
        if argument["key"] in arguments:
            raise SpecError(f"{argument['key']!r} is given twice in {text!r}", fix="give it once")
        arguments[argument["key"]] = value
    return Call(match["name"], arguments)


def _pieces(text: str) -> Iterator[str]:
    """What the commas outside of brackets separate."""
    depth = start = 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _value(text: str) -> Value | None:
    """The value that is written, or None where it is none."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        items = [_value(piece) for piece in _pieces(text[1:-1])] if text[1:-1].strip() else []
        found = tuple(item for item in items if item is not None)
        return found if len(found) == len(items) else None
    if not _WORD.fullmatch(text):
        return None
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_text(value: object) -> str:
    """A value as an expression writes it: ``true`` rather than ``True``, ``[1,5]`` rather than ``(1, 5)``."""
    if isinstance(value, tuple):
        return f"[{','.join(map(as_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
