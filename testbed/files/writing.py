"""Writers of files, such that a reader, or a run that goes on later, finds a whole one or none."""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

from testbed.base.errors import DiskFullError, OutputError
from testbed.files import foreign

TEMPORARY = ".*.tmp"
"""Pattern of names of files while they are written: the name, and what is drawn at random, for the star."""


def write_json(path: Path, value: object, folder: int | None = None) -> None:
    """Write ``value`` as indented JSON, atomically. Bytes that are no character, as in a path that is not UTF-8, are
    escaped.

    Raises:
        DiskFullError, OutputError: as :func:`write_bytes`.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode(errors="backslashreplace"), folder=folder)


def number(name: str, value: object) -> float:
    """Return ``value``, which is ``name`` in a file that may be damaged, as a finite number.

    Raises:
        ValueError: it is no number, though text of one, or is beyond all that can be measured.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} is {value!r:.40}, no finite number")
    return float(value)


def read_json(path: Path, below: Path | None = None) -> dict[str, Any]:
    """Read the JSON object in a file that we wrote, or somebody who says so; ``below`` as in
    :func:`testbed.files.foreign.opened`.

    Raises:
        OutputError: it is missing or damaged, or no file of ours.
    """
    try:
        return foreign.read_object(path, below)
    except OSError as error:
        raise OutputError(f"{path}: {foreign.reason(error)}", fix="give a run directory") from None
    except foreign.UnfitError as error:
        raise OutputError(f"{path}: {error}", fix="remove it and run again") from None


def check_name(path: Path, trial: object) -> None:
    """Check that a trial's file is called as the trial that it holds: a copy under another name would count twice.

    Raises:
        OutputError: it is not.
    """
    if trial != path.stem:
        raise OutputError(
            f"{path}: holds the trial {trial!r:.100}, and a trial's file has its name: a copy would count twice",
            fix="remove the copy, or give the file its trial's name",
        )


def write_bytes(path: Path, content: bytes, mode: int = 0o666, folder: int | None = None) -> None:
    """Write a file atomically: whoever opens ``path`` sees the old content or the new, also after a power cut. Its
    permissions are ``mode``, less what the umask takes. A link at ``path`` is replaced, and not followed.

    ``folder`` is a descriptor of the folder that holds it, if the caller has one.

    Raises:
        DiskFullError: no room is left.
        OutputError: the file cannot be written.
    """
    with whole_file(path, mode, folder) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, mode: int = 0o666, folder: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to write into, which gets its name when the block has ended; if that raises an error, nothing is
    left. Arguments are those of :func:`write_bytes`.

    Raises:
        DiskFullError, OutputError: as :func:`write_bytes`.
    """
    with named_errors(path), ExitStack() as stack:
        there = stack.enter_context(opened_folder(path.parent)) if folder is None else folder
        with _renamed(path.name, mode, there) as file:
            yield file


@contextmanager
def _renamed(name: str, mode: int, folder: int) -> Iterator[BinaryIO]:
    """Open a file under another name, and rename it in the end. Nobody can have put a file or a link there before, for
    the name in between is drawn, and must be new."""
    temporary = temporaries(name).replace("*", f".{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def temporaries(name: str) -> str:
    """Pattern (:mod:`fnmatch`) of a file's name while it is written."""
    return TEMPORARY.replace("*", f"{name}*")


@contextmanager
def opened_folder(path: Path | str, below: int | None = None) -> Iterator[int]:
    """Open a folder; return its descriptor. One that is named relative to another, ``below``, is no link.

    Raises:
        OSError: it is not there, is no folder, or is a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if below is None else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, dir_fd=below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(folder: int) -> list[str]:
    """Names in a folder that is open."""
    with os.scandir(folder) as found:
        return [one.name for one in found]


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
        fix = "choose another place, or make that one writable"
        if error.errno == errno.ENOENT and not path.parent.exists():
            fix = f"make its folder: mkdir -p {quote(str(path.parent))}"
        raise OutputError(f"{path}: cannot be written: {reason}", fix=fix) from None
