"""Compiled parts of ours: plain C, which set-up compiles, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

from testbed.base.errors import MissingToolError

FIX = "install a C compiler (Debian: gcc and libc6-dev), remove .venv/.testbed-* and run ./setup.sh run"
Function: TypeAlias = "tuple[str, Any, Sequence[Any]]"
"""A function of a library: its name, and the types of its result and of its arguments."""


def load(module: str, version: int, functions: Iterable[Function]) -> ctypes.CDLL | None:
    """Load the library that a module is, and declare its functions; None where there is none for this machine.

    A module ``a.b._c`` has a function ``c_version``.

    Raises:
        MissingToolError: it is of another version.
    """
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # its folder is missing, too
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
    except OSError:  # of another kind of machine than this one
        return None
    try:
        is_ours = getattr(library, f"{module.rpartition('._')[2]}_version")() == version
        for name, result, arguments in functions if is_ours else ():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        is_ours = False
    if not is_ours:
        raise MissingToolError(f"{spec.origin} is of another version of testbed", fix=FIX)
    return library


def require(module: str, version: int, functions: Iterable[Function], called: str) -> ctypes.CDLL:
    """Load a library without which something cannot be done.

    Raises:
        MissingToolError: there is none for this machine, or it is of another version.
    """
    library = load(module, version, functions)
    if library is None:
        raise MissingToolError(f"{called} is not installed", fix=FIX)
    return library
