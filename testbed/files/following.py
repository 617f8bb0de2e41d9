"""Reading what another process writes, as it grows.

That process may have put something else in the place of its file. Then, as with a line that makes no sense, nothing is
found here: who reads the whole file when the process has ended says what is wrong with it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from testbed.files import foreign

_Process = TypeVar("_Process", bound=Hashable)
PIECE_BYTES = 2**22
MOST_PIECES = 64
"""Of what is counted at one look: who makes a file of a terabyte, which takes no room, keeps nobody busy with it."""
LONGEST_LINE_BYTES = 2**20
"""Of a line that is of interest while it is written; of a longer one only the end is kept, which is none."""


class Growth:
    """One file, which need not exist yet; of its bytes, the first ``most_bytes`` are read."""

    def __init__(self, path: Path, most_bytes: int = sys.maxsize) -> None:
        self._path, self._most_bytes, self._read = path, most_bytes, 0

    def new(self) -> bytes:
        """What has been written since the last look, or the first piece of it."""
        try:
            if min(foreign.size_bytes(self._path), self._most_bytes) <= self._read:
                return b""
            with foreign.opened(self._path, self._path.parent) as file:
                file.seek(self._read)
                found = file.read(min(PIECE_BYTES, self._most_bytes - self._read))
        except (OSError, foreign.UnfitError):
            return b""
        self._read += len(found)
        return found

    def rest(self) -> Iterator[bytes]:
        """All that has been written by now and was not read, in pieces."""
        try:
            stop = foreign.size_bytes(self._path)
        except foreign.UnfitError:
            return
        while self._read < stop and (piece := self.new()):
            yield piece


class Feed(Generic[_Process]):
    """The files in which some processes write JSON lines, by process; a line counts once its end is written."""

    def __init__(self, files: Mapping[_Process, Path]) -> None:
        self._followers = {process: _Follower(path) for process, path in files.items()}
        self._counts = dict.fromkeys(files, 0)

    def forget(self, processes: Collection[_Process]) -> None:
        """These write nothing any more."""
        self._followers = {process: one for process, one in self._followers.items() if process not in processes}

    def said(self, having: bytes = b"") -> list[dict[str, Any]]:
        """The objects with a ``kind`` that were written since the last look, in lines that have this text."""
        return [found for one in self._followers.values() for found in one.said(having)]

    def first_said(self) -> list[dict[str, Any]]:
        """The same of the first of those that still write."""
        first = next(iter(self._followers.values()), None)
        return first.said() if first else []

    def count(self, process: _Process, beginning: bytes) -> int:
        """How many lines of one of them begin so by now; always asked for the same beginning."""
        lines = self._followers[process].lines(MOST_PIECES)
        self._counts[process] += sum(line.startswith(beginning) for line in lines)
        return self._counts[process]


class _Follower:
    """One of these files."""

    def __init__(self, path: Path) -> None:
        self._growth, self._rest = Growth(path), b""

    def lines(self, pieces: int = 1) -> Iterator[bytes]:
        """What has been written since the last look, at most so many pieces of it."""
        for _ in range(pieces):
            piece = self._growth.new()
            *lines, rest = (self._rest + piece).split(b"\n")
            self._rest = rest[-LONGEST_LINE_BYTES:]
            yield from lines
            if len(piece) < PIECE_BYTES:
                return

    def said(self, having: bytes = b"") -> list[dict[str, Any]]:
        found = (_object(line) for line in self.lines() if having in line)
        return [one for one in found if one is not None]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = foreign.parse_json(line, finite=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None
