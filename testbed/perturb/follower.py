"""Reading what another process writes, as it grows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from testbed.errors import OutputError
from testbed.files import open_regular

PIECE_BYTES = 1 << 20


class Growth:
    """One file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> bytes:
        """The next piece of what has been written since the last look, of at most :data:`PIECE_BYTES`.

        Raises:
            OutputError: a link or a pipe is there in the file's place.
        """
        try:
            if self._path.lstat().st_size == self._read:
                return b""
            with open_regular(self._path) as file:
                file.seek(self._read)
                found = file.read(PIECE_BYTES)
        except FileNotFoundError:
            return b""
        self._read += len(found)
        return found


class Follower:
    """The same, line by line; a line counts once its end is written."""

    def __init__(self, path: Path) -> None:
        self._growth, self._rest = Growth(path), b""

    def lines(self) -> list[bytes]:
        """What has been written since the last look."""
        new = b""
        with suppress(OutputError):  # whoever reads the whole file at the end says so
            new = self._growth.new()
        *lines, self._rest = (self._rest + new).split(b"\n")
        return lines
