"""Reading what another process writes, as it grows.

That process may have put something else in the place of its file. Then, as with a line that makes no sense, nothing is
found here: who reads the whole file when the process has ended says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed import foreign

PIECE_BYTES = 2**22
LONGEST_LINE_BYTES = 2**20
"""Of a line that is of interest while it is written; of a longer one only the end is kept, which is none."""


class Growth:
    """One file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> bytes:
        """What has been written since the last look, or the first piece of it."""
        try:
            if foreign.size_bytes(self._path) <= self._read:
                return b""
            with foreign.opened(self._path, self._path.parent) as file:
                file.seek(self._read)
                found = file.read(PIECE_BYTES)
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


class Follower:
    """The same, line by line; a line counts once its end is written."""

    def __init__(self, path: Path) -> None:
        self._growth, self._rest = Growth(path), b""

    def lines(self) -> list[bytes]:
        """What has been written since the last look."""
        *lines, rest = (self._rest + self._growth.new()).split(b"\n")
        self._rest = rest[-LONGEST_LINE_BYTES:]
        return lines

    def said(self, having: bytes = b"") -> list[dict[str, Any]]:
        """The objects with a ``kind`` that were written since the last look, in lines that have this text."""
        found = (_object(line) for line in self.lines() if having in line)
        return [one for one in found if one is not None]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = foreign.parse_json(line, finite=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None
