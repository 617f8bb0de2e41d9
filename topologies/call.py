"""The one-line notation for a topology or a scheme: ``bcube(n=3,k=2)``, ``ring``, ``./mine.py:my_scheme(depth=2)``.

A value is a number, ``true``, ``false``, a bare word, or a list of values: ``multi_ring(strides=[1,5])``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from testbed.base.errors import SpecError

Value = int | float | bool | str | tuple["Value", ...]
"""Value of an argument. A list is a tuple, so that no one can change it afterwards."""

_CALL = re.compile(r"(?P<name>[^()\s]+)\s*(?:\((?P<args>[^()]*)\))?")
_ARGUMENT = re.compile(r"\s*(?P<key>[A-Za-z_]\w*)\s*=(?P<value>[^=]+)")
_WORD = re.compile(r"[^\s,=\[\]]+")
_WORDS: dict[str, Value] = {"true": True, "false": False}
LONGEST = 2**15
"""Limit on the characters of an expression: enough to name four thousand hosts in groups."""
LARGEST = 2**63
"""Limit on a number: no parameter is as large."""
_CLOSING = {"(": ")", "[": "]"}
_DEEPEST = 2  # lists of lists


@dataclass(frozen=True)
class Call:
    """A name and keyword arguments, in the order written."""

    name: str
    arguments: dict[str, Value]

    def __str__(self) -> str:
        inside = ",".join(f"{key}={as_text(value)}" for key, value in self.arguments.items())
        return f"{self.name}({inside})" if inside else self.name


def parse(text: str, example: str, parameters: Callable[[str], Sequence[str]] = lambda _: ()) -> Call:
    """Read ``name`` or ``name(key=value,...)``.

    ``parameters`` has the names of what a name takes, as far as they are known: they tell how to write values that
    were given without names.

    Raises:
        SpecError: the text has another form; ``example`` is shown as a right one.
    """
    if len(text) > LONGEST:
        raise SpecError(f"an expression of {len(text):,} characters", fix=f"write it in at most {LONGEST:,}")
    match = _CALL.fullmatch(text.strip())
    if not match:
        raise _bracket(text, example) or SpecError(f"cannot read {_shown(text)}", fix=f"write it as {example}")
    arguments: dict[str, Value] = {}
    for key, piece, written in _arguments(match["args"] or ""):
        found = value(written)
        if not key or found is None:
            where = f"{_shown(piece.strip())} in {_shown(text)}"
            raise _bracket(text, example) or SpecError(
                f"cannot read the argument {where}", fix=f"write it as {_named(match, parameters) or example}"
            )
        if key in arguments:
            raise SpecError(f"{key!r} is given twice in {_shown(text)}", fix="give it once")
        arguments[key] = found
    return Call(match["name"], arguments)


def _bracket(text: str, example: str) -> SpecError | None:
    """Describe the first bracket that lacks its other half; None where all have one."""
    opened: list[tuple[int, str]] = []  # each open bracket's place and the bracket that closes it
    text = text.strip()
    for at, character in [*enumerate(text, 1), (len(text) + 1, "")]:
        if character in ("(", "["):
            opened.append((at, _CLOSING[character]))
        elif opened and character == opened[-1][1]:
            opened.pop()
        elif character in (")", "]") and all(character != closing for _, closing in opened):
            problem, fix = f"nothing opens {character!r}, character {at}", "remove it"
            return SpecError(f"cannot read {_shown(text)}: {problem}", fix=f"{fix}, as in {example}")
        elif opened and character in (")", "]", ""):
            start, closing = opened[-1]
            problem = f"nothing closes {text[start - 1]!r}, character {start}"
            fix = f"add {closing!r} {f'before character {at}' if character else 'at the end'}"
            return SpecError(f"cannot read {_shown(text)}: {problem}", fix=f"{fix}, as in {example}")
    return None


def _named(match: re.Match[str], parameters: Callable[[str], Sequence[str]]) -> str | None:
    """Return the expression with names for the values that lack them; None where that gives none."""
    given = [(key, (one if key else piece).strip()) for key, piece, one in _arguments(match["args"])]
    free = [name for name in parameters(match["name"]) if name not in dict(given)]
    if sum(not key for key, _ in given) > len(free) or any(value(one) is None for _, one in given):
        return None
    named = [f"{key or free.pop(0)}={one}" for key, one in given]
    return f"{match['name']}({','.join(named)})"


def written(text: str) -> tuple[str, dict[str, str]] | None:
    """Split an expression into its name and each argument's value as it is written, whatever that is; None where the
    text has another form."""
    match = _CALL.fullmatch(text.strip()) if len(text) <= LONGEST else None
    found = list(_arguments(match["args"] or "")) if match else []
    keys = [key for key, _, _ in found]
    if not match or not all(keys) or len(set(keys)) < len(keys):
        return None
    return match["name"], {key: value.strip() for key, _, value in found}


def _arguments(inside: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each argument, all of the argument, and its value; a name is empty where there is none."""
    for piece in pieces(inside) if inside.strip() else []:
        argument = _ARGUMENT.fullmatch(piece)
        yield (argument["key"], piece, argument["value"]) if argument else ("", piece, "")


def pieces(text: str) -> Iterator[str]:
    """Yield the pieces between the commas outside of brackets."""
    depth = start = 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:197]}...")


def value(text: str, depth: int = 0) -> Value | None:
    """Read a value; None where the text is none, such as a number beyond all sizes."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        if depth == _DEEPEST:
            return None
        items = [value(piece, depth + 1) for piece in pieces(text[1:-1])] if text[1:-1].strip() else []
        found = tuple(item for item in items if item is not None)
        return found if len(found) == len(items) else None
    if not _WORD.fullmatch(text):
        return None
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        absurd = abs(number) >= LARGEST if isinstance(number, int) else math.isinf(number) and text[-1].isdigit()
        return None if absurd else number
    return text


def as_text(value: object) -> str:
    """Write a value as expressions do: ``true`` rather than ``True``, ``[1,5]`` rather than ``(1, 5)``."""
    if isinstance(value, tuple):
        return f"[{','.join(map(as_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
