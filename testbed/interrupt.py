"""Ctrl-C, SIGTERM and a terminal that closes end a run in one and the same way."""

from __future__ import annotations

import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def raise_once() -> None:
    """Have the first of these signals raise KeyboardInterrupt, and ignore those that follow: what is left to do then is
    to take the lab down and to remove files, which takes a bounded time and would leave some if it were broken off.

    A signal that the caller ignores stays ignored, as nohup wants it.
    """
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(_: int, __: FrameType | None) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
