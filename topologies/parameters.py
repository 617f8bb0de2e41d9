"""The keyword parameters of a builder, read from its signature, and the check of what a user wrote against them."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import UnionType
from typing import Literal, TypeGuard, Union, get_args, get_origin

from testbed.base.errors import SpecError, TopologyError
from testbed.topologies.call import Value, as_text

MOST_LINKS = 2**18
"""Limit on a network's links, which are those of BCube(16,4), built in a second; a lab holds far fewer."""

_LIST, _LISTS = "a list of integers, such as [1,5]", "a list of lists of integers, such as [[0,1],[2,3]]"
_HOSTS = "a list of lists of hosts, such as [[0,1],[2,3]] or [[h0,h1],[h2,h3]]"
_NAMES = "a list of names, such as [h0,h1]"
Hosts = tuple[tuple[int | str, ...], ...]
"""Lists of hosts, by number or by name."""
_KINDS: dict[object, str] = {
    int: "an integer",
    int | None: "an integer",
    float: "a number",
    float | None: "a number",
    bool: "true or false",
    str: "a word",
    tuple[int, ...]: _LIST,
    tuple[str, ...]: _NAMES,
    tuple[tuple[int, ...], ...]: _LISTS,
    Hosts: _HOSTS,
}

_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Parameter:
    """One keyword parameter. ``kind`` says in words what it takes, beside the words that are ``choices``."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    default: Value | None = None
    required: bool = True

    @property
    def takes_list(self) -> bool:
        """Whether a list is one value of it; a parameter without a type may take one, because nobody knows."""
        return self.kind in (_LIST, _LISTS, _HOSTS, _NAMES, "anything")

    @property
    def takes(self) -> str:
        """All that it takes, in words."""
        words = [f"one of {', '.join(self.choices)}"] * bool(self.choices) + [self.kind] * bool(self.kind)
        return ", or ".join(words)

    def __str__(self) -> str:
        return f"{self.name}={'...' if self.required else as_text(self.default)}"


def parameters_of(function: Callable[..., object], skip: int) -> tuple[Parameter, ...]:
    """Return the named parameters of ``function`` after its first ``skip`` ones.

    Raises:
        NameError: an annotation names something that does not exist.
    """
    signature = inspect.signature(function, eval_str=True)
    named = (each for each in list(signature.parameters.values())[skip:] if each.kind not in _REST)
    return tuple(map(_parameter, named))


def _parameter(given: inspect.Parameter) -> Parameter:
    is_union = get_origin(given.annotation) in (Union, UnionType) and given.annotation not in _KINDS
    parts = get_args(given.annotation) if is_union else (given.annotation,)
    choices = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    kinds = [_KINDS.get(part, "anything") for part in parts if get_origin(part) is not Literal]
    kind = "anything" if len(kinds) > 1 else "".join(kinds)
    required = given.default is inspect.Parameter.empty
    return Parameter(given.name, kind, choices, None if required else given.default, required)


def bind(
    name: str, parameters: Sequence[Parameter], arguments: Mapping[str, Value], error: type[SpecError]
) -> dict[str, Value]:
    """Check ``arguments`` against the parameters of ``name`` and return them with each value in its parameter's type.

    Raises:
        error: an argument is unknown, missing or of another type.
    """
    known = {parameter.name: parameter for parameter in parameters}
    written = (str(one) if one.required or one.default is not None else f"[{one.name}=...]" for one in parameters)
    usage = f"{name}({','.join(written)})" if parameters else name  # None cannot be written
    for key in arguments:
        if key not in known:
            raise error(f"{name} has no parameter {key!r}{did_you_mean(key, known)}", fix=f"write it as {usage}")
    missing = [parameter.name for parameter in parameters if parameter.required and parameter.name not in arguments]
    if missing:
        raise error(f"{name} needs a value for {' and '.join(missing)}", fix=f"write it as {usage}")
    return {key: _take(name, known[key], value, error) for key, value in arguments.items()}


def _take(name: str, parameter: Parameter, value: Value, error: type[SpecError]) -> Value:
    if parameter.kind == "anything" or (parameter.choices and value in parameter.choices):
        return value
    if parameter.kind == "an integer" and type(value) is int:
        return value
    if parameter.kind == "a number" and _is_number(value):
        return float(value)
    if parameter.kind == "true or false" and isinstance(value, bool):
        return value
    if parameter.kind == _LIST and _is_list(value):
        return value
    if parameter.kind == _LISTS and isinstance(value, tuple) and all(map(_is_list, value)):
        return value
    if parameter.kind == _HOSTS and isinstance(value, tuple) and all(map(_names_hosts, value)):
        return value
    if parameter.kind == _NAMES and isinstance(value, tuple) and not any(isinstance(item, tuple) for item in value):
        return value
    if parameter.kind == "a word" and not isinstance(value, tuple):
        return as_text(value)
    given = f"{as_text(value)}{did_you_mean(as_text(value), parameter.choices)}"
    raise error(f"{name}: {parameter.name} is {given}", fix=f"give {parameter.name} {parameter.takes}")


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(value: object) -> bool:
    return isinstance(value, tuple) and all(type(item) is int for item in value)


def _names_hosts(value: object) -> bool:
    return isinstance(value, tuple) and all(type(item) in (int, str) for item in value)


def did_you_mean(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return ``" (did you mean 'star'?)"``, or nothing where no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def at_least(family: str, minimum: int, **values: float) -> None:
    """Refuse each named value below ``minimum``.

    Raises:
        TopologyError: one is.
    """
    for name, value in values.items():
        if value < minimum:
            raise TopologyError(f"{family}: {name} is {value}", fix=f"give {name} at least {minimum}")


def uplink_bps(family: str, down_bps: float, oversubscription: float, uplinks: int = 1) -> int:
    """Return the rate (bit/s) of each uplink of a rack whose hosts can send ``down_bps`` together.

    Raises:
        TopologyError: the oversubscription is not positive, or leaves no bandwidth.
    """
    if oversubscription <= 0:
        raise TopologyError(
            f"{family}: oversubscription is {oversubscription}", fix="give oversubscription a number above 0"
        )
    found_bps = round(down_bps / (uplinks * oversubscription))
    if found_bps < 1:
        raise TopologyError(
            f"{family}: oversubscription {oversubscription} leaves an uplink less than 1 bit/s", fix="make it smaller"
        )
    return found_bps


_MOST_LINKS: ContextVar[int] = ContextVar("most_links", default=MOST_LINKS)


@contextmanager
def at_most(links: int) -> Iterator[None]:
    """Refuse networks of more than ``links`` links in this context."""
    before = _MOST_LINKS.set(min(links, MOST_LINKS))
    try:
        yield
    finally:
        _MOST_LINKS.reset(before)


def check_size(family: str, links: int, **values: object) -> None:
    """Refuse a network of more than ``MOST_LINKS`` links, or than :func:`at_most` says, before memory is spent on it.

    Raises:
        TopologyError: it has more.
    """
    most = _MOST_LINKS.get()
    if links > most:
        sizes = ", ".join(f"{name}={value}" for name, value in values.items())
        raise TopologyError(
            f"{family} with {sizes} has more than {most:,} links, the most that can be built",
            fix="make it smaller",
        )
