"""The archive's file: gzip and tar, with the same bytes for the same content, whoever packs it when and where."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import IO

from testbed.base.errors import OutputError
from testbed.files.foreign import UnfitError, opened, reason
from testbed.files.writing import whole_file

MOST_BYTES = 4 * 2**30
"""Bytes that all files together may have, unpacked."""
LEVEL = 9
"""Level of gzip: the archive is written once, and sent to several people."""


@dataclass(frozen=True)
class Entry:
    """A file of the archive.

    Attributes:
        name: relative to the archive's folder.
        content: its bytes, or the file that has them.
        below: the folder of somebody who is not trusted, in which that file is.
    """

    name: str
    content: bytes | Path
    below: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[tuple[IO[bytes], int]]:
        """Open the content, and tell how many bytes it has.

        Raises:
            OutputError: it is no regular file, is a link, or cannot be read.
        """
        if isinstance(self.content, bytes):
            yield io.BytesIO(self.content), len(self.content)
            return
        try:
            with opened(self.content, self.below) as file:
                yield file, os.fstat(file.fileno()).st_size
        except (OSError, UnfitError) as error:
            raise OutputError(
                f"{self.content}: {reason(error)}", fix="put the file itself there, or remove it"
            ) from None

    @property
    def size_bytes(self) -> int:
        """
        Raises:
            OutputError: as :meth:`opened`.
        """
        with self.opened() as (_, size):
            return size


def check_new(path: Path) -> None:
    """
    Raises:
        OutputError: there is something already.
    """
    if os.path.lexists(path):
        raise OutputError(f"{path}: is there already", fix=f"name another file with --out, or: rm {quote(str(path))}")


def pack(path: Path, folder: str, entries: Sequence[Entry], made_s: float) -> int:
    """Write the archive, whole or not at all; how many bytes it has.

    Args:
        folder: the folder that all entries are in.
        made_s: the time that all files in it bear (s since 1970).

    Raises:
        OutputError: entries are too large together, or cannot be read; or the archive cannot be written.
        DiskFullError: no room is left.
    """
    total = sum(entry.size_bytes for entry in entries)
    if total > MOST_BYTES:
        raise OutputError(
            f"{path}: its files have {total:,} bytes, and {MOST_BYTES:,} is the most",
            fix="archive parts of the run: copy it, and remove some of trials/*.json with their tables",
        )
    with whole_file(path) as file:
        zipped = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0)
        with zipped, tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in sorted(entries, key=lambda entry: entry.name):
                _add(tar, folder, entry, made_s)
        check_new(path)
    return path.stat().st_size


def _add(tar: tarfile.TarFile, folder: str, entry: Entry, made_s: float) -> None:
    """
    Raises:
        OutputError: the entry cannot be read, or becomes shorter meanwhile.
    """
    with entry.opened() as (file, size_bytes):
        info = tarfile.TarInfo(f"{folder}/{entry.name}")  # of user and group 0, without names, as it is by default
        info.size, info.mtime, info.mode = size_bytes, int(made_s), 0o644
        try:
            tar.addfile(info, file)
        except OSError as error:
            if error.errno is not None:
                raise
            raise OutputError(f"{entry.content!s}: was changed while it was read", fix="archive it again") from None
