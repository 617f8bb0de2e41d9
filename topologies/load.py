"""Functions from a user's own file, written ``./mine.py:my_function``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path

from testbed.base import old_names
from testbed.base.errors import SpecError
from testbed.base.extras import install_of
from testbed.topologies.parameters import did_you_mean

LARGEST_BYTES = 1 << 20
"""Limit on the size of a user's file: no function that a person writes comes near this."""

DATA = (".graphml", ".gml", ".clab.yml", ".clab.yaml", ".json")
"""Endings of files that have a network as data (:mod:`testbed.topologies.formats`)."""

_OURS = Path(__file__).parents[1]
"""The package ``testbed``, which holds all others."""
_CLOSED: ContextVar[tuple[str, str] | None] = ContextVar("closed", default=None)
"""The reader for which no code of files is run now, and the fix that an error names."""


@contextmanager
def no_code(who: str, fix: str) -> Iterator[None]:
    """Run no code of files in this context: ``who`` reads a file that may name any file."""
    before = _CLOSED.set((who, fix))
    try:
        yield
    finally:
        _CLOSED.reset(before)


def is_in_file(name: str) -> bool:
    """Whether the name in an expression points into a file with code rather than into our registry."""
    return ":" in name or name.endswith(".py")


def is_data(name: str) -> bool:
    """Whether the name in an expression is that of a file with a network as data."""
    return name.endswith(DATA) and not is_in_file(name)


def file_of(name: str) -> str | None:
    """Return the file to which the name in an expression points; None where it is a name of our registry."""
    if is_in_file(name):
        return name.rpartition(":")[0]
    return name if is_data(name) else None


def placed_in(folder: Path, name: str) -> str:
    """Return the name in an expression with the path of a user's own file, if it is of one, taken from ``folder``."""
    if file_of(name) is None or Path(name).is_absolute():
        return name
    path = folder / name
    return str(path) if path.is_absolute() else f"./{path}"


def check_open(name: str, error: type[SpecError]) -> None:
    """Raise ``error`` if no code of files, such as ``name`` is, is run now."""
    closed = _CLOSED.get()
    if closed:
        raise error(f"{name!r:.200} names code in a file, which {closed[0]} does not run", fix=closed[1])


def load_function(name: str, error: type[SpecError]) -> Callable[..., object]:
    """Return the function that ``path/file.py:function`` names.

    The file is run, and kept under its full path so that objects from it can be pickled within this process.

    Raises:
        error: no function is named, the file is missing or fails to run, or it has no such function; or no code of
            files is run now.
    """
    check_open(name, error)
    path_text, _, function_name = name.rpartition(":")
    if not path_text or not function_name:
        raise error(f"{name!r} does not name both a file and a function in it", fix="write it as ./FILE.py:FUNCTION")
    path = Path(path_text)
    size_bytes = _size_bytes(path)
    if size_bytes is None:
        raise error(f"there is no file {path_text!r} (looked in {Path.cwd()})", fix="correct the path before the colon")
    if size_bytes > LARGEST_BYTES:
        raise error(f"{path_text} has {size_bytes:,} bytes", fix="name a Python file of at most 1 MiB")
    module_name = f"user file {path.resolve()}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise error(f"{path_text} is not a Python file", fix="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look their module up here
    try:
        with users_code(f"{path_text} fails to run", error):
            spec.loader.exec_module(module)
    except error:
        del sys.modules[module_name]
        raise
    function = getattr(module, function_name, None)
    if not callable(function):
        public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        own = [key for key, value in public.items() if getattr(value, "__module__", None) == module.__name__]
        listed = f"it has {', '.join(own)}" if own else "it has none"
        raise error(
            f"{path_text} has no function {function_name!r}{did_you_mean(function_name, own)}",
            fix=f"name a function of that file: {listed}",
        )
    found: Callable[..., object] = function
    return found


def _size_bytes(path: Path) -> int | None:
    """Return the size of a file; None where there is no such file, or something that is none."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:  # a name that no file can have
        return None


@contextmanager
def users_code(problem: str, error: type[SpecError], fix: str = "mend that line") -> Iterator[None]:
    """Run a user's own code: what it prints goes to standard error, for standard output may be read by a program.

    Raises:
        error: itself as the code raised it, or about whatever else the code raised, and in which line of which of the
            user's files. An import of a name that a package of ours had before is told with the new one.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except error:
        raise
    except (Exception, SystemExit) as cause:
        if old := old_names.in_error(cause):
            raise error(f"{problem}: {old.problem}", fix=old.fix) from cause
        name = (cause.name or "") if isinstance(cause, ModuleNotFoundError) else ""
        lines = [frame for frame in traceback.extract_tb(cause.__traceback__) if is_users(frame.filename)]
        file = Path(lines[-1].filename) if lines else Path()
        is_told = not lines or isinstance(cause, SyntaxError)  # whose text has its line
        line = "" if is_told else f" ({file.name}, line {lines[-1].lineno})"
        if name:
            fix = f"correct the import, or install the package: {install_of(name.partition('.')[0])}"
        if name and lines and any((file.parent / beside).exists() for beside in (name, f"{name}.py")):
            fix = f"write what is needed of {name} into {file.name}: a file is loaded without those beside it"
        raise error(f"{problem}: {type(cause).__name__}: {cause}{line}", fix=fix) from cause


def is_users(filename: str) -> bool:
    """Whether a file is neither ours, nor Python's, nor an installed package's."""
    import sysconfig  # only now: each command imports this module, and few meet an error

    path = Path(filename)
    installed = {Path(folder) for folder in sysconfig.get_paths().values() if "python" in folder}
    return path.is_file() and not any(map(path.is_relative_to, [_OURS, *installed]))
