"""Readers of what another process writes, as it grows.

That process may have put something else in the place of its file. Then, as with a line that makes no sense, nothing is
found here: who reads the whole file when the process has ended says what is wrong with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.base.bounded_json import parse_json
from testbed.files import foreign

PIECE_BYTES = 2**22
MOST_PIECES = 64
"""The most pieces that are read at once: who makes a file of a terabyte, which takes no room, keeps nobody busy with
it."""
LONGEST_LINE_BYTES = 2**20
"""The most bytes of a line that is of interest while it is written; of a longer one only the end is kept, which is
none."""


class Growth:
    """Growth of a file, which need not exist yet; of its bytes, the first ``most_bytes`` are read."""

    def __init__(self, path: Path, most_bytes: int = sys.maxsize) -> None:
        self._path, self._most_bytes, self._read = path, most_bytes, 0

    def new(self) -> bytes:
        """Read what has been written since the last look, or the first piece of it."""
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
        """Yield all that has been written by now and was not read, in pieces."""
        try:
            stop = foreign.size_bytes(self._path)
        except foreign.UnfitError:
            return
        while self._read < stop and (piece := self.new()):
            yield piece


class Lines:
    """JSON lines that another process writes to a file; a line counts once its end is written."""

    def __init__(self, path: Path, most_bytes: int = sys.maxsize) -> None:
        self._growth, self._rest = Growth(path, most_bytes), b""

    def said(self, pieces: int = 1) -> Iterator[dict[str, Any]]:
        """Yield the objects with a ``kind`` that were written since the last look, in at most so many pieces of the
        file."""
        for _ in range(pieces):
            piece = self._growth.new()
            *lines, rest = (self._rest + piece).split(b"\n")
            self._rest = rest[-LONGEST_LINE_BYTES:]
            yield from (found for line in lines if (found := _object(line)) is not None)
            if len(piece) < PIECE_BYTES:
                return


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = parse_json(line, finite=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None
