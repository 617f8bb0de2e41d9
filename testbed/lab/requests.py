"""Requests that go over a connection: which methods can be asked for, and with which arguments.

A method is marked with :class:`request`, and nothing else of its object can be asked for::

    class Desk:
        @request
        def note(self, words: Sequence[str]) -> int: ...

    REQUESTS = Requests(Desk)

On the side that asks, ``Desk.note(["a"])`` makes a :class:`Call`, which a connection sends: mypy knows the request, its
arguments and what the answer is. On the side that answers, ``REQUESTS.find`` finds the method of a Desk. Each kind of
connection writes calls in its own way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType, NoneType, UnionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Union, get_args, get_origin, overload

from testbed.base.errors import LabError

FILES = "files"
"""Name of an argument that is open files, which go beside what is sent."""
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer", covariant=True)
_SIMPLE: dict[object, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    NoneType: (NoneType,),
}
"""Types that a value may have for each annotation: true and false are no numbers."""


FIX = "run the same testbed at both ends"


class RequestError(LabError):
    """A request that does not exist, or that takes other arguments."""


@dataclass(frozen=True)
class Call(Generic[_Answer]):
    """A request to be sent, whose answer is of this type.

    Attributes:
        name: of the request.
        arguments: by name, in their order.
        files: open files that go beside them.
    """

    name: str
    arguments: Mapping[str, Any]
    files: Sequence[int] = ()


class request(Generic[_Arguments, _Result]):  # noqa: N801  # a decorator
    """Decorator of a method that can be asked for. On an object the method works as before; called on the class, it
    makes a :class:`Call`."""

    def __init__(self, method: Callable[Concatenate[Any, _Arguments], _Result]) -> None:
        self.method = method
        self._signature = inspect.signature(method)

    @overload
    def __get__(self, owner: None, of: type) -> Callable[_Arguments, Call[_Result]]: ...
    @overload
    def __get__(self, owner: object, of: type) -> Callable[_Arguments, _Result]: ...
    def __get__(self, owner: object, of: type) -> Callable[..., Any]:
        return self._call if owner is None else MethodType(self.method, owner)

    def _call(self, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> Call[_Result]:
        bound = self._signature.bind(None, *arguments, **named).arguments
        _, *given = bound.items()
        return Call(
            self.method.__name__, {key: value for key, value in given if key != FILES}, tuple(bound.get(FILES, ()))
        )


class Requests:
    """The requests of a class, with those of the classes that it is made of."""

    def __init__(self, of: type, *, trusted: bool = False) -> None:
        """
        Args:
            trusted: who asks is the same program of the same user, so arguments are what mypy has seen that they are,
                and are not looked at again, however many they are.

        Raises:
            TypeError: an argument is annotated with what nothing can be held against.
        """
        known = {name: one for base in reversed(of.__mro__) for name, one in vars(base).items()}
        self._methods = {name: one.method for name, one in known.items() if isinstance(one, request)}
        self._signatures: dict[str, inspect.Signature] = {}
        if trusted:
            return
        for name, method in self._methods.items():
            signature = self._signatures[name] = inspect.signature(method, eval_str=True)
            for parameter in list(signature.parameters.values())[1:]:
                _check_kind(parameter.annotation)

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def find(
        self,
        owner: object,
        name: object,
        arguments: Sequence[object] = (),
        named: Mapping[str, Any] | None = None,
        files: Sequence[int] = (),
    ) -> Callable[[], Any]:
        """Return a function that does what is asked for; nothing is done yet.

        Raises:
            RequestError: there is no such request, or it takes other arguments.
        """
        if not isinstance(name, str) or name not in self._methods:
            raise RequestError(f"there is no request {name!r:.100}", fix=FIX)
        by_name = {**(named or {}), **({FILES: files} if files else {})}
        if name not in self._signatures:
            return partial(self._methods[name], owner, *arguments, **by_name)
        return self._checked(name, owner, arguments, by_name)

    def _checked(
        self, name: str, owner: object, arguments: Sequence[object], by_name: Mapping[str, Any]
    ) -> Callable[[], Any]:
        """Raises RequestError: it takes other arguments."""
        signature = self._signatures[name]
        try:
            bound = signature.bind(owner, *arguments, **by_name)
        except TypeError as error:
            raise RequestError(f"{name}: {error}", fix=FIX) from None
        for key, value in list(bound.arguments.items())[1:]:
            kind = signature.parameters[key].annotation
            if not _fits(value, kind):
                called = kind.__name__ if kind in _SIMPLE else kind
                raise RequestError(f"{name}: {key} is {value!r:.100}, no {called}", fix=FIX)
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
