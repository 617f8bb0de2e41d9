"""Ctrl-C, SIGTERM and a terminal that closes end a run in one and the same way, at any moment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from testbed.base.exits import INTERRUPTED

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING_S = 15.0
"""Seconds that ending may take: a lab whose processes were stopped takes 10 s, any other a moment."""

NOTHING_BEGUN = "interrupted: nothing had begun; the same command starts anew\n"
TERMINATED = "interrupted: the same command starts anew\n"

_told_s: list[float] = []
"""Moments at which KeyboardInterrupt was raised."""


def told() -> bool:
    """Whether this process was told to end. What fails from then on for want of a terminal, such as the last lines of a
    display, is part of the interruption."""
    return bool(_told_s)


@contextmanager
def exit_at_once() -> Iterator[None]:
    """Have these signals end the process while it has nothing to put in order, as during its imports. An exception will
    not do there: Python drops it where it falls into one of the import system's own callbacks."""
    before = {number: signal.getsignal(number) for number in ENDING}
    _handle(_exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell_of_termination() -> None:
    """Have SIGTERM end the process as it does anyway, with a word before, until the command wants to be told of it."""
    ours = os.getpid()  # what it forks says nothing

    def stop(number: int, _: FrameType | None) -> None:
        with suppress(OSError):  # the terminal may be gone
            if os.getpid() == ours:
                os.write(2, TERMINATED.encode())
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def raise_once(numbers: Collection[signal.Signals] = ENDING) -> None:
    """Have the first of these signals raise KeyboardInterrupt, and drop those that follow within ``ENDING_S``: what is
    left to do then is to take the lab down and to remove files, or to say that it was interrupted, and would be broken
    off. A process that still runs after that time has lost the first one, and is told again."""

    def stop(_: int, __: FrameType | None) -> None:
        now = time.monotonic()
        if not _told_s or now - _told_s[-1] >= ENDING_S:
            _told_s.append(now)
            raise KeyboardInterrupt

    _told_s.clear()
    _handle(stop, numbers)


def raise_each() -> None:
    """Have each Ctrl-C raise KeyboardInterrupt, for a command that passes the first one on."""
    _handle(signal.default_int_handler, [signal.SIGINT])


def _exit(_: int, __: FrameType | None) -> None:
    with suppress(OSError):  # the terminal may be gone
        os.write(2, NOTHING_BEGUN.encode())
    os._exit(INTERRUPTED)


def _handle(handler: Callable[[int, FrameType | None], object], numbers: Collection[signal.Signals] = ENDING) -> None:
    """Set a handler. A signal that the caller ignores stays ignored, as nohup wants it."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
