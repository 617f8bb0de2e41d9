"""Read the links back again and again while a trial runs, at moments that nobody can guess.

What is read back before and after a trial does not show what was changed and put back meanwhile: links at twice their
rate for half of the iterations make a trial shorter than it can be. So a thread beside the one that waits for the
workers has the lab read its shapers, after a random time each. What the trial's own schedule changes is no difference:
a lab reads between such changes and never in the middle of one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import TracebackType

from testbed.errors import LabError
from testbed.lab.base import Lab

LEAST_S, MOST_S = 0.1, 1.0
"""The mean time between readings is within."""
PERIODS = 200
"""The mean time between readings, in times of what a reading takes of a CPU: so all cost at most 0.5 % of a core."""
SPREAD = 0.8
"""An interval is drawn from the mean one's share of 1 - SPREAD to 1 + SPREAD."""


@dataclass
class Readings:
    """What was read while a trial ran: how often, of how many directed links on average, and when each difference was
    seen (``time.monotonic``)."""

    count: int = 0
    links: int = 0
    cost_s: float = 0.0
    seen_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def differs(self, start_s: float, after: str | None) -> str | None:
        """What the kernel had otherwise than asked for: each difference with how often and when it was seen, counted
        from ``start_s``, then what there is ``after`` the trial; None if nothing."""
        return "; ".join(filter(None, [self._told(start_s), after])) or None

    def _told(self, start_s: float) -> str | None:
        if not self.seen_s:
            return None
        told = [
            f"{what} (in {len(moments)} of {self.count} readings, from {moments[0] - start_s:.1f} s to "
            f"{moments[-1] - start_s:.1f} s after the start)"
            for what, moments in self.seen_s.items()
        ]
        more = f"; and {len(told) - MOST_TOLD} others" if len(told) > MOST_TOLD else ""
        return f"in mid-run, {'; '.join(told[:MOST_TOLD])}{more}"

    def __str__(self) -> str:
        """``17 readings in mid-run, of 36 directed links each``: how many that is on average."""
        if not self.count:
            return "none was read in mid-run"
        plural = "" if self.count == 1 else "s"
        return f"{self.count} reading{plural} in mid-run, of {round(self.links / self.count)} directed links each"


MOST_TOLD = 3
"""Differences that a sentence names."""


def mean_s(cost_s: float) -> float:
    """The mean time between readings that take so long of a CPU."""
    return min(MOST_S, max(LEAST_S, PERIODS * cost_s))


class SpotChecks:
    """Reads from ``with`` to its end; ``readings`` is complete after it.

    Raises:
        LabError: at the end, if links could not be read.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.readings = Readings()
        self._error: LabError | None = None
        self._random = random.SystemRandom()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spot-checks", daemon=True)

    def __enter__(self) -> SpotChecks:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    # The thread.

    def _run(self) -> None:
        period_s = mean_s(0.0)
        while not self._stop.wait(period_s * self._random.uniform(1 - SPREAD, 1 + SPREAD)):
            try:
                period_s = mean_s(self._read())
            except Exception as error:  # whatever it is, nobody looks any more
                self._error = error if isinstance(error, LabError) else LabError(f"links could not be read: {error!r}")
                return

    def _read(self) -> float:
        """Once; what that has taken of a CPU, here and in the lab (s)."""
        before_s = time.thread_time()
        found = self._lab.spot_check()
        if found.links:
            self.readings.count += 1
            self.readings.links += found.links
        for difference in found.differs:
            self.readings.seen_s[difference].append(time.monotonic())
        cost_s = found.cost_s + time.thread_time() - before_s
        self.readings.cost_s += cost_s
        return cost_s
