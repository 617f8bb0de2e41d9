"""Slows a script's backward passes down to a given time, as if each rank had a device of that speed.

Problem: gradients become ready one after the other during the backward pass, and what overlaps with communication
depends on when. So it is not enough to wait at the end.

Chosen: a backward pass waits whenever it asks for a sum, until as large a share of the time has passed as it has asked
for of the bytes of the last backward pass. So buckets come as evenly as a slower device would ask for them. In the
first pass nobody knows of how many bytes a sum is a part, so all wait until the time has passed: DDP asks for a single
one. A pass that asks for nothing, as with ``no_sync``, waits at its end.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch


class Pace:
    """The pace of this process's backward passes.

    Args:
        pace_s: how long each takes at least.
        late: is told by how much one took longer (s), at its end.
    """

    def __init__(self, pace_s: float, late: Callable[[float], None]) -> None:
        self._pace_s, self._late = pace_s, late
        self._begun_s: float | None = None
        self._asked_bytes = self._whole_bytes = 0
        self._is_complete = False

    def wrap(self) -> None:
        """Wrap ``torch.autograd.backward``, and so ``loss.backward()``, to keep the pace."""
        theirs = torch.autograd.backward

        @functools.wraps(theirs)
        def backward(*arguments: Any, **named: Any) -> Any:
            if self._begun_s is not None:  # within another one
                return theirs(*arguments, **named)
            self._begun_s, self._asked_bytes, self._is_complete = time.monotonic(), 0, False
            try:
                found = theirs(*arguments, **named)
                self._end(self._begun_s)
                return found
            finally:
                self._begun_s = None
                self._whole_bytes = self._asked_bytes or self._whole_bytes

        torch.autograd.backward = backward

    def ask(self, nbytes: int) -> None:
        """Wait until a backward pass at this pace would ask for a sum of that size; return at once outside of one."""
        if self._begun_s is None:
            return
        self._asked_bytes += nbytes
        if not self._is_complete:
            share = min(1.0, self._asked_bytes / self._whole_bytes) if self._whole_bytes else 1.0
            self._is_complete = share == 1.0
            self._keep(self._begun_s + share * self._pace_s)

    def _end(self, begun_s: float) -> None:
        if not self._is_complete:
            self._is_complete = True
            self._keep(begun_s + self._pace_s)

    def _keep(self, moment_s: float) -> None:
        """Wait until then; report how long ago that was, if nothing more is to be computed."""
        late_s = time.monotonic() - moment_s
        if late_s < 0:
            time.sleep(-late_s)
        if self._is_complete:
            self._late(max(0.0, late_s))
