"""A terminal for tests: a pseudo-terminal in place of standard output, and what was written to it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import redirect_stdout, suppress

import pytest

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(call: Callable[[], object], columns: int, patch: pytest.MonkeyPatch) -> str:
    """What ``call`` prints on a terminal of so many columns, without colours."""
    patch.setenv("COLUMNS", str(columns))
    patch.setenv("TERM", "xterm-256color")
    ours, its = os.openpty()
    written = bytearray()

    def read() -> None:
        with suppress(OSError):  # as Linux says that the other end is closed
            while piece := os.read(ours, 1 << 16):
                written.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(its, "w", encoding="utf-8") as terminal, redirect_stdout(terminal), suppress(SystemExit):
        call()
    reader.join()
    os.close(ours)
    return _CONTROL.sub("", written.decode()).replace("\r\n", "\n")


def widest(text: str) -> str:
    """The longest line."""
    return max(text.split("\n"), key=len)
