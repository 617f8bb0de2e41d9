"""Reading what another process writes, line by line, as it grows."""

from __future__ import annotations

from pathlib import Path


class Follower:
    """One file, which need not exist yet; a line counts once its end is written."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._rest = path, 0, b""

    def lines(self) -> list[bytes]:
        """What has been written since the last look."""
        try:
            if self._path.stat().st_size == self._read:
                return []
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return lines
