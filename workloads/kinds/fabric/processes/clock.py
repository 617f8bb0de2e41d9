"""What the scheduler's clock says, as far as its notes tell.

A note says when it was said. The one that took the shortest time of the last few tells how far that clock is from this
one, but for this time. So a note that was late does not make late what it says, and no host's clock has to be set.
"""

from __future__ import annotations

import math
from collections import deque

NOTES = 64
"""So few that clocks do not drift apart meanwhile, so many that one of them was fast."""


class Clock:
    """Translates moments (s) between the scheduler's clock and that of this process."""

    def __init__(self) -> None:
        self._ahead_s: deque[float] = deque(maxlen=NOTES)
        """Of notes, when they were here less when they were said."""

    def heard(self, said_s: float, now_s: float) -> None:
        """A note is here that was said then."""
        self._ahead_s.append(now_s - said_s)

    def here_s(self, told_s: float) -> float:
        """What this clock says at a moment of the scheduler's; infinity before that has said anything."""
        return told_s + min(self._ahead_s, default=math.inf)

    def told_s(self, here_s: float) -> float | None:
        """What the scheduler's clock says at a moment of this one; None before it has said anything."""
        return here_s - min(self._ahead_s) if self._ahead_s else None
