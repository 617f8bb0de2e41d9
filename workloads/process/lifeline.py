"""A process that ends when the one that started it does, however that ended."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
"""Of prctl(2)."""


def end_with(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends, or the thread of it that started this process; returns
    whether the parent, of this number, is still there."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # it may have died before the line above could tie us to it
