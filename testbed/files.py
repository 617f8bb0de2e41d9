"""Writing files so that a reader, or a run that goes on later, finds a whole one or none."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.errors import DiskFullError, OutputError

TEMPORARY = ".*.tmp"
"""What a file is called while it is written, with its name for the star."""


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as indented JSON, atomically. What is no character, as in a path that is not UTF-8, is escaped.

    Raises:
        DiskFullError, OutputError: as :func:`write_bytes`.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode(errors="backslashreplace"))


def parse_json(text: str) -> Any:
    """A JSON value as we write them, in which every number is finite: Python's reader takes ``NaN`` and ``1e999``.

    Raises:
        ValueError: it is none.
    """
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def number(name: str, value: object) -> float:
    """What ``name`` is in a file that may be damaged.

    Raises:
        ValueError: it is no number, though text of one, or is beyond all that can be measured.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} is {value!r:.40}, no finite number")
    return float(value)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file that we wrote.

    Raises:
        OutputError: it is missing or damaged.
    """
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}", fix="give a run directory") from None
    except ValueError as error:
        raise OutputError(f"{path}: damaged, not JSON ({error})", fix="remove it and run again") from None
    if not isinstance(value, dict):
        raise OutputError(f"{path}: damaged, holds no JSON object", fix="remove it and run again")
    return value


def check_name(path: Path, trial: object) -> None:
    """Whether a trial's file is called as the trial that it holds: a copy under another name would count twice.

    Raises:
        OutputError: it is not.
    """
    if trial != path.stem:
        raise OutputError(
            f"{path}: holds the trial {trial!r:.100}, and a trial's file has its name: a copy would count twice",
            fix="remove the copy, or give the file its trial's name",
        )


def write_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file atomically: whoever opens ``path`` sees the old content or the new, also after a power cut. Its
    permissions are ``mode``, less what the umask takes.

    Raises:
        DiskFullError: no room is left.
        OutputError: the file cannot be written.
    """

    def write(temporary: Path) -> None:
        temporary.unlink(missing_ok=True)
        temporary.touch(mode)
        temporary.write_bytes(content)

    write_through(path, write)


def write_through(path: Path, write: Callable[[Path], object]) -> None:
    """As :func:`write_bytes`, with the content made by ``write``, which is given a temporary path.

    Raises:
        DiskFullError, OutputError: as :func:`write_bytes`.
    """
    temporary = path.with_name(TEMPORARY.replace("*", path.name))
    with named_errors(path):
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors while ``path`` is written into ours.

    Raises:
        DiskFullError: no room is left.
        OutputError: anything else that the system refuses.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"no room is left on the disk for {path}",
                fix="free some space, then go on with testbed run --resume; finished trials are kept",
            ) from None
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"{path}: cannot be written: {reason}", fix="choose another place, or make that one writable"
        ) from None
