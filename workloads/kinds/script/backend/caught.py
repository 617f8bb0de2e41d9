"""Errors of ours with the class that PyTorch's have, so that a script's ``except RuntimeError`` catches them."""

from __future__ import annotations

from typing import Any

from testbed.base.errors import TestbedError


def caught(error: BaseException) -> BaseException:
    """Return an error of ours with the same words, name and trace, which is a ``RuntimeError`` as well; any other error
    as it is."""
    if not isinstance(error, TestbedError) or isinstance(error, RuntimeError):
        return error
    kind = _BOTH.get(type(error)) or _BOTH.setdefault(type(error), _both(type(error)))
    same = kind.__new__(kind)
    same.args = error.args
    vars(same).update(vars(error))
    return same.with_traceback(error.__traceback__)


_BOTH: dict[type[TestbedError], type[TestbedError]] = {}
"""By class of ours, the class that is both."""


def _both(kind: type[TestbedError]) -> type[TestbedError]:
    def reduced(error: TestbedError) -> tuple[Any, ...]:
        """Tell pickle how to make it again in another process, such as a loader of data."""
        return _again, (kind, error.args, vars(error))

    names = {
        "__reduce__": reduced,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind, RuntimeError), names)


def _again(kind: type[TestbedError], arguments: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    same = kind.__new__(kind)
    same.args = arguments
    vars(same).update(state)
    return caught(same)
