"""A process that ends when its parent does, however the parent ended."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
"""Option of prctl(2)."""


def end_with(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends, or the thread of it that started this process; return
    whether the parent, of this number, is still there."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # it may have died before the line above could tie us to it
