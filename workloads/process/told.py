"""Lines that the harness adds to a file while a trial runs (:meth:`testbed.lab.base.Lab.tell`), as a process reads
them."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 1 << 22
"""Limit on the bytes of a line: the harness writes no longer one."""


class Lines:
    """Reader of the whole lines that were added since its last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def new(self) -> list[bytes]:
        """Read each new line; nothing while there is no file.

        Raises:
            ValueError: a line is longer than :data:`MOST_BYTES`.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                content = file.read(MOST_BYTES)
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        if len(content) == MOST_BYTES and not whole:
            raise ValueError(f"a line is longer than {MOST_BYTES:,} bytes")
        self._read_bytes += len(whole)
        return whole.splitlines()
