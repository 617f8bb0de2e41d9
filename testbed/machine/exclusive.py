"""Lock of the whole machine: a run that was sent here by ``--on`` has the machine to itself.

The lock is on the root directory, which all users of a machine have, and in whose place nobody can put another one. The
kernel lets it go when its holder ends. Every user of the machine can hold it, too, so a plain run waits for it
only as long as for a calm machine.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

ROOT = "/"
_ours: list[int] = []
"""Descriptor of the lock that this process holds; -1 where whoever started it does."""


def hold(tell: Callable[[], None]) -> None:
    """Take the lock for as long as this process lives; where another one has it, ``tell`` somebody, and wait for its
    end."""
    lock = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        tell()
        fcntl.flock(lock, fcntl.LOCK_EX)
    _ours.append(lock)


def share() -> None:
    """Take note that whoever started this process holds the lock for it."""
    _ours.append(-1)


def release() -> None:
    """Let the lock go before this process ends."""
    while _ours:
        if (lock := _ours.pop()) >= 0:
            os.close(lock)


def is_taken() -> bool:
    """Whether another run has the machine to itself."""
    if _ours:
        return False
    lock = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
