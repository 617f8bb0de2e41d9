"""Ctrl-C, SIGTERM and a terminal that closes end a run in one and the same way, at any moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from testbed.exits import INTERRUPTED

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_at_once() -> Iterator[None]:
    """Have these signals end the process while it has nothing to put in order, as during its imports. An exception will
    not do there: Python drops it where it falls into one of the import system's own callbacks."""
    before = {number: signal.getsignal(number) for number in ENDING}
    _handle(lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_once() -> None:
    """Have the first of these signals raise KeyboardInterrupt, and ignore those that follow: what is left to do then is
    to take the lab down and to remove files, which takes a bounded time and would leave some if it were broken off."""
    _handle(_stop)


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    """A signal that the caller ignores stays ignored, as nohup wants it."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _stop(_: int, __: FrameType | None) -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
