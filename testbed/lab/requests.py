"""Requests that come over a connection: which methods can be asked for, and of which types their arguments must be.

Only methods that are marked with :func:`request` can be asked for, whatever else their object has. Their arguments are
held against the annotations first, because anything can come over a connection.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

_MARK = "__testbed_request__"
_Method = TypeVar("_Method", bound=Callable[..., Any])
_SIMPLE: dict[object, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    NoneType: (NoneType,),
}
"""What a value's own type may be: true and false are no numbers."""


class RequestError(ValueError):
    """It asks for what there is not, or gives it what it does not take."""


def request(method: _Method) -> _Method:
    """Marks a method that can be asked for, by its name without ``do_``."""
    setattr(method, _MARK, True)
    return method


class Requests:
    """The requests of a class."""

    def __init__(self, of: type) -> None:
        """
        Raises:
            TypeError: an argument is annotated with what nothing can be held against.
        """
        marked = [method for method in vars(of).values() if getattr(method, _MARK, False)]
        self._methods: dict[str, Callable[..., Any]] = {one.__name__.removeprefix("do_"): one for one in marked}
        self._signatures = {name: inspect.signature(one, eval_str=True) for name, one in self._methods.items()}
        for signature in self._signatures.values():
            for parameter in list(signature.parameters.values())[1:]:
                _check_kind(parameter.annotation)

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def find(
        self, owner: object, name: object, arguments: Sequence[object] = (), named: Mapping[str, object] | None = None
    ) -> Callable[[], Any]:
        """What does what is asked for; nothing is done yet.

        Raises:
            RequestError: there is no such request, or it takes other arguments.
        """
        if not isinstance(name, str) or name not in self._methods:
            raise RequestError(f"there is no request {name!r:.100}")
        signature = self._signatures[name]
        try:
            bound = signature.bind(owner, *arguments, **(named or {}))
        except TypeError as error:
            raise RequestError(f"{name}: {error}") from None
        for key, value in list(bound.arguments.items())[1:]:
            kind = signature.parameters[key].annotation
            if not _fits(value, kind):
                raise RequestError(f"{name}: {key} is {value!r:.100}, no {_called(kind)}")
        return partial(self._methods[name], *bound.args, **bound.kwargs)


def _fits(value: object, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind in _SIMPLE:
        return type(value) in _SIMPLE[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)


def _check_kind(kind: Any) -> None:
    if kind is Any or kind in _SIMPLE:
        return
    origin, inner = get_origin(kind), get_args(kind)
    if origin not in (Union, UnionType, Mapping, Sequence, list):
        raise TypeError(f"nothing can be held against {kind!r}")
    for one in inner:
        _check_kind(one)


def _called(kind: Any) -> str:
    return kind.__name__ if kind in _SIMPLE else str(kind)
