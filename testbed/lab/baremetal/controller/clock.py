"""Offset of another machine's clock, from NTP's four moments, of which the agent's two are one.

The controller notes when it asks and when the answer is there; the host says what its ``time.monotonic()`` was in
between. Its clock is then off by the middle of the two minus what it said, by half of the round trip at most. Of the
last exchanges the one with the shortest round trip counts; clocks that drift apart by 50 ppm do so by 1.5 ms in the
:data:`REMEMBERED_S` that an exchange counts for, so a recent one is preferred to one that was a little quicker.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

REMEMBERED_S = 30.0
DRIFT = 50e-6
"""Rate at which two undisciplined quartz clocks drift apart at most; where NTP disciplines both it is below 1e-6."""


@dataclass(frozen=True)
class Exchange:
    """One comparison of clocks: ``offset_s`` is to be added to the host's clock; it is off by at most
    ``uncertainty_s``."""

    at_s: float
    offset_s: float
    uncertainty_s: float


@dataclass
class Clock:
    """One host's clock compared with ours."""

    exchanges: deque[Exchange] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Lock of the exchanges: they come in one thread, and samples, whose times they move, in another."""

    def add(self, asked_s: float, said_s: float, answered_s: float) -> None:
        """Note an exchange: our clock, theirs, ours."""
        one = Exchange(answered_s, (asked_s + answered_s) / 2 - said_s, (answered_s - asked_s) / 2)
        with self._lock:
            self.exchanges.append(one)
            while answered_s - self.exchanges[0].at_s > REMEMBERED_S:
                self.exchanges.popleft()

    def best(self) -> Exchange:
        """The exchange that counts now. Raises ValueError before the first exchange."""
        with self._lock:
            known = tuple(self.exchanges)
        now_s = known[-1].at_s if known else 0.0
        return min(known, key=lambda one: one.uncertainty_s + DRIFT * (now_s - one.at_s))

    def their_s(self, local_s: float) -> float:
        """Convert a moment of our clock to the host's."""
        return local_s - self.best().offset_s

    def local_s(self, their_s: float) -> float:
        """Convert a moment of the host's clock to ours."""
        return their_s + self.best().offset_s
