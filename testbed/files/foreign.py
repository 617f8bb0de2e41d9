"""Files that others wrote: workers, other users, whoever sent a run directory. Read with bounds, or not at all.

Such a file may be a FIFO, which would keep its reader waiting; a link to what is none of its author's business; larger
than memory; or nested so deeply that a parser runs out of stack. So it is opened without waiting, is read only if it is
a regular file of a bounded size, and JSON in it has a bounded depth and number of values.

Below a folder whose files somebody else can change, no link is followed. The folder itself may be a link: its name is
given by whoever reads.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from testbed.base.bounded_json import parse_json

LARGEST_BYTES = 16 * 2**20
"""The most bytes of a JSON file. The largest of ours, an environment, has about 1 kB for each trial."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

MOST_LISTED = 20_000
"""Files and folders at most that are looked at below a folder, in a tenth of a second."""
DEEPEST = 32
"""Folders within each other at most that are looked into."""
LONGEST_PATH = (DEEPEST + 1) * 256
"""The most characters of a name below a folder."""
COMPILED = "__pycache__"


class UnfitError(ValueError):
    """A file that is not read, or is no JSON that we take; the text says why and follows the file's name."""


class Listing(NamedTuple):
    """Names and sizes of files below a folder, and whether there was no more to look at than the bounds allow."""

    files: tuple[tuple[str, int], ...]
    is_whole: bool


def reason(error: OSError | ValueError) -> str:
    """Say why a file was not read, in words that follow its name."""
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


@contextmanager
def opened(path: Path, below: Path | None = None) -> Iterator[BinaryIO]:
    """Open a regular file to be read, without waiting for anybody.

    Args:
        below: a folder of somebody who is not trusted: from there on to the file no link is followed.

    Raises:
        UnfitError: it is no regular file, or a link.
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, _FLAGS) if below is None else _open_below(below, path.relative_to(below))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnfitError("is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_bytes(path: Path, most_bytes: int = LARGEST_BYTES, below: Path | None = None) -> bytes:
    """Read all of a file that has at most ``most_bytes``.

    Raises:
        UnfitError: it is larger, or as :func:`opened`.
        OSError: it cannot be read.
    """
    with opened(path, below) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnfitError(f"has more than {most_bytes:,} bytes")
    return content


def read_tail(path: Path, most_bytes: int, below: Path | None = None) -> bytes:
    """Read the last ``most_bytes`` of a file, or all of a smaller one.

    Raises:
        UnfitError, OSError: as :func:`opened`.
    """
    with opened(path, below) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
        return file.read(most_bytes)


def size_bytes(path: Path) -> int:
    """Size of a regular file, which may grow; 0 where there is none yet. No link is followed.

    Raises:
        UnfitError: it is something else.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise UnfitError("is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is no regular file")
    return found.st_size


def copy(path: Path, to: Path, below: Path) -> None:
    """Copy a regular file below a folder that is not trusted; ``to`` must not be there yet.

    Raises:
        UnfitError, OSError: as :func:`opened`; or ``to`` cannot be written.
    """
    with opened(path, below) as source, to.open("xb") as target:
        shutil.copyfileobj(source, target)


def listed(below: Path, since_ns: int = 0) -> Listing:
    """List the regular files below a folder that is not trusted, but for what Python has compiled.

    Args:
        since_ns: leave out files that nobody has changed since then, by the system's clock (ns).

    Raises:
        OSError: the folder cannot be opened.
    """
    left, found, looked = [Path()], list[tuple[str, int]](), 0
    while left:
        inside = left.pop()
        if len(inside.parts) > DEEPEST:
            return Listing(tuple(found), is_whole=False)
        try:
            descriptor = _open_below(below, inside) if inside.parts else os.open(below, _FOLDER & ~os.O_NOFOLLOW)
        except (OSError, UnfitError):
            if not inside.parts:
                raise
            continue  # it is gone, or no folder any more
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    looked += 1
                    if looked > MOST_LISTED:
                        return Listing(tuple(found), is_whole=False)
                    if entry.is_dir(follow_symlinks=False):
                        left += [inside / entry.name] * (entry.name != COMPILED)
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_ctime_ns >= since_ns:
                            found.append((str(inside / entry.name), status.st_size))
        except OSError:
            continue  # somebody removes what is listed
        finally:
            os.close(descriptor)
    return Listing(tuple(sorted(found)), is_whole=True)


def read_piece(below: Path, name: str, offset: int, most_bytes: int) -> bytes:
    """Read up to ``most_bytes`` of a file that :func:`listed` names, from ``offset`` on.

    Raises:
        UnfitError, OSError: as :func:`opened`.
    """
    with opened(below / name, below) as file:
        file.seek(offset)
        return file.read(most_bytes)


def read_object(path: Path, below: Path | None = None) -> dict[str, Any]:
    """Read the JSON object in a file, as :func:`parse_json` takes it.

    Raises:
        UnfitError: it holds none, or as :func:`opened`.
        OSError: it cannot be read.
    """
    content = read_bytes(path, below=below)
    try:
        value = parse_json(content)
    except ValueError as error:
        raise UnfitError(f"damaged, not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UnfitError("damaged, holds no JSON object")
    return value


def _open_below(folder: Path, name: Path) -> int:
    """Open the file ``name`` below ``folder``, which alone may be a link; return its descriptor.

    Raises:
        UnfitError: it, or a folder on the way to it, is a link.
        OSError: it cannot be opened.
    """
    *folders, last = name.parts
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for one in folders:
            inner = os.open(one, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(last, _FLAGS | os.O_NOFOLLOW, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and folders):
            raise UnfitError("is a symbolic link, or in one, and links are not followed there") from None
        if error.errno == errno.ENXIO:
            raise UnfitError("is no regular file") from None  # a socket
        raise
    finally:
        os.close(at)
