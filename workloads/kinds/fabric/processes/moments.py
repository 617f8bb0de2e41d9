"""Moments of transfers: when one that comes will end, and what the scheduler's clock shows. Pure logic, no I/O."""

from __future__ import annotations

import math
from collections import deque

from testbed.workloads.kinds.fabric.processes.messages import NEAR_S


class Coming:
    """Prediction of when the floats of one transfer, which are on their way here, will all be here.

    What comes first may come faster than the rest, where links have been idle: a link saves some of what it did not
    carry. So of a long transfer the second half tells how fast it comes.
    """

    def __init__(self, nbytes: int, now_s: float) -> None:
        self._nbytes = nbytes
        self._since_s, self._left_then = now_s, nbytes
        self._is_told = False

    def ends_in_s(self, left: int, now_s: float) -> float | None:
        """Return in how long (s) the ``left`` bytes will be here; only once, when that is :data:`NEAR_S` or less."""
        if self._is_told or 2 * left > self._nbytes:
            return None
        if self._left_then == self._nbytes and now_s - self._since_s > NEAR_S:
            self._since_s, self._left_then = now_s, left
            return None
        left_s = left * (now_s - self._since_s) / max(1, self._left_then - left)
        self._is_told = left_s <= NEAR_S
        return left_s if self._is_told else None


NOTES = 64
"""Number of notes that are compared: few enough that clocks do not drift apart meanwhile, and enough that one of them
was fast."""


class Clock:
    """Translates moments (s) between the scheduler's clock and that of this process.

    A note of the scheduler says when it was said. The one that took the shortest time of the last few tells how far
    that clock is from this one, but for this time. So a note that was late does not make late what it says, and no
    host's clock has to be set."""

    def __init__(self) -> None:
        self._ahead_s: deque[float] = deque(maxlen=NOTES)
        """Differences between the arrival and the sending of notes, on the two clocks (s)."""

    def heard(self, said_s: float, now_s: float) -> None:
        """Note that a note which was sent at ``said_s`` has come at ``now_s``."""
        self._ahead_s.append(now_s - said_s)

    def here_s(self, told_s: float) -> float:
        """Translate a moment of the scheduler's clock to this clock; infinity before the scheduler has sent a note."""
        return told_s + min(self._ahead_s, default=math.inf)

    def told_s(self, here_s: float) -> float | None:
        """Translate a moment of this clock to the scheduler's; None before the scheduler has sent a note."""
        return here_s - min(self._ahead_s) if self._ahead_s else None
