"""The one-line notation for a topology or a scheme: ``bcube(n=3,k=2)``, ``ring``, ``./mine.py:my_scheme(depth=2)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.errors import SpecError

Value = int | float | bool | str

_CALL = re.compile(r"\s*(?P<name>[^()\s]+)\s*(?:\((?P<args>[^()]*)\))?\s*")
_ARGUMENT = re.compile(r"\s*(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>[^\s,=]+)\s*")
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
    """Read ``name`` or ``name(key=value,...)``; values are integers, decimals, true, false or bare words.

    Raises:
        SpecError: the text has another form; ``example`` is shown as a right one.
    """
    match = _CALL.fullmatch(text)
    if not match:
        raise SpecError(f"cannot read {text!r}", fix=f"write it as {example}")
    arguments: dict[str, Value] = {}
    inside = match["args"] or ""
    for piece in inside.split(",") if inside.strip() else []:
        argument = _ARGUMENT.fullmatch(piece)
        if not argument:
            raise SpecError(f"cannot read the argument {piece.strip()!r} in {text!r}", fix=f"write it as {example}")
        if argument["key"] in arguments:
            raise SpecError(f"{argument['key']!r} is given twice in {text!r}", fix="give it once")
        arguments[argument["key"]] = _value(argument["value"])
    return Call(match["name"], arguments)


def _value(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_text(value: object) -> str:
    """A value as an expression writes it: ``true`` rather than ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
