"""Calls into a user's own files, and errors that name the line."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.topologies.call import Call
from testbed.topologies.load import is_in_file, load_function, users_code
from testbed.topologies.parameters import bind, parameters_of

_OURS = Path(__file__).parents[2]
"""The package ``testbed``, which holds all others."""
_INSTALLED = {Path(path) for path in sysconfig.get_paths().values() if "python" in path}
"""Folders of Python and of installed packages."""


@contextmanager
def running(problem: str, fix: str = "mend that line") -> Iterator[None]:
    """Run a user's own code.

    Raises:
        SpecError: the code raised something; says what, and in which line of which of the user's files.
    """
    try:
        with users_code(problem, SpecError, fix):
            yield
    except SpecError as error:
        raise SpecError(error.problem + _line(error.__cause__), fix=error.fix) from error.__cause__


def _line(cause: BaseException | None) -> str:
    """Find the innermost line of a user's file that led to an exception; the text of a SyntaxError has it already."""
    if cause is None or isinstance(cause, SyntaxError):
        return ""
    lines = [frame for frame in traceback.extract_tb(cause.__traceback__) if _is_users(frame.filename)]
    return f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""


def _is_users(filename: str) -> bool:
    """Whether a file is neither ours, nor Python's, nor an installed package's."""
    path = Path(filename)
    return path.is_file() and not any(map(path.is_relative_to, [_OURS, *_INSTALLED]))


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
    with running(f"{call.name} fails"):
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
            if file and Path(file).is_relative_to(folder) and _is_users(file):
                files.add(Path(file).relative_to(folder))
                del sys.modules[name]
        files.add(Path(path.name))


def function_of(call: Call) -> Callable[..., object]:
    """Return the function or class that ``./file.py:name`` names.

    Raises:
        SpecError: there is none, or its file fails to run.
    """
    with running(call.name):
        return load_function(call.name, SpecError)
