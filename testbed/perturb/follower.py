"""Reading what another process writes, as it grows."""

from __future__ import annotations

from pathlib import Path


class Growth:
    """One file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> bytes:
        """What has been written since the last look."""
        try:
            if self._path.stat().st_size == self._read:
                return b""
            with self._path.open("rb") as file:
                file.seek(self._read)
                found = file.read()
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
        *lines, self._rest = (self._rest + self._growth.new()).split(b"\n")
        return lines
