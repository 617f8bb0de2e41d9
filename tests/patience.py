"""Waiting for what happens soon on an idle machine and late on a busy one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0
"""What a busy machine may take for anything that a test waits for."""

Found = TypeVar("Found")


def until(reached: Callable[[], Found | None], within_s: float = PATIENCE_S, look_every_s: float = 0.01) -> Found:
    """Call it until what it returns is true, and return that. Raises AssertionError when the time is up."""
    end = time.monotonic() + within_s
    while not (found := reached()):
        assert time.monotonic() < end, f"waited {within_s:g} s; the last answer was {found!r}"
        time.sleep(look_every_s)
    return found
