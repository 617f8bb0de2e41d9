"""Calls into a user's own files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.topologies.call import Call
from testbed.topologies.load import is_in_file, is_users, load_function, users_code
from testbed.topologies.parameters import bind, parameters_of


def called(call: Call, function: Callable[..., object]) -> object:
    """Call ``function`` with the arguments of an expression, and return its result.

    Raises:
        SpecError: it takes others, or fails.
    """
    try:
        parameters = parameters_of(function, 0)
    except (TypeError, ValueError, NameError) as problem:
        raise SpecError(
            f"the signature of {call.name} cannot be used: {problem}", fix="give it named parameters"
        ) from None
    arguments = bind(call.name, parameters, call.arguments, SpecError)
    with users_code(f"{call.name} fails", SpecError):
        return function(**arguments)


@contextmanager
def siblings(call: Call) -> Iterator[set[Path]]:
    """Let a user's file import files beside it; gather the paths of all of them that were imported.

    Afterwards they are forgotten, for files of other folders may have the same names.
    """
    files: set[Path] = set()
    if not is_in_file(call.name):
        yield files
        return
    path = Path(call.name.rpartition(":")[0])
    folder = path.absolute().parent
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield files
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder) and is_users(file):
                files.add(Path(file).relative_to(folder))
                del sys.modules[name]
        files.add(Path(path.name))


def function_of(call: Call) -> Callable[..., object]:
    """Return the function or class that ``./file.py:name`` names.

    Raises:
        SpecError: there is none, or its file fails to run.
    """
    return load_function(call.name, SpecError)
