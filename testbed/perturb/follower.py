"""Reading what another process writes, as it grows."""

from __future__ import annotations

from pathlib import Path

from testbed.errors import OutputError
from testbed.files import open_regular

PIECE_BYTES = 1 << 20


class Growth:
    """One file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> bytes:
        """The next piece of what has been written since the last look, of at most :data:`PIECE_BYTES`. A link or a pipe
        in the file's place does not grow; who reads the whole file in the end says so."""
        try:
            if self._path.lstat().st_size == self._read:
                return b""
            with open_regular(self._path) as file:
                file.seek(self._read)
                found = file.read(PIECE_BYTES)
        except (FileNotFoundError, OutputError):
            return b""
        self._read += len(found)
        return found


class Follower:
    """The same, line by line; a line counts once its end is written."""

    def __init__(self, path: Path) -> None:
        self._growth, self._rest = Growth(path), b""

    def lines(self) -> list[bytes]:
        """What has been written since the last look."""
        *lines, self._rest = (self._rest + self._growth.new()).split(b"\n")
        return lines
