"""Translation between the scheduler's clock and this process's, from the scheduler's notes.

A note says when it was said. The one that took the shortest time of the last few tells how far that clock is from this
one, but for this time. So a note that was late does not make late what it says, and no host's clock has to be set.
"""

from __future__ import annotations

import math
from collections import deque

NOTES = 64
"""Number of notes that are compared: few enough that clocks do not drift apart meanwhile, and enough that one of them
was fast."""


class Clock:
    """Translates moments (s) between the scheduler's clock and that of this process."""

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
