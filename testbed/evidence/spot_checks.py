"""Read the links back again and again while a trial runs, at moments that nobody can guess.

What is read back before and after a trial does not show what was changed and put back meanwhile: links at twice their
rate for half of the iterations make a trial shorter than it can be. So a thread beside the one that waits for the
workers has the lab read its shapers, after a random time each. What the trial's own schedule changes is no difference:
a lab reads between such changes and never in the middle of one.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from types import TracebackType

from testbed.base.errors import LabError
from testbed.base.listing import shortened
from testbed.base.repeating import Repeating
from testbed.lab.base import Lab

LEAST_S, MOST_S = 0.1, 1.0
"""Bounds of the mean time between readings (s)."""
PERIODS = 200
"""The mean time between readings, as a multiple of the CPU time of one. So readings take at most 0.5 % of a core,
except in short trials (:data:`LEAST_COUNT`)."""
SPREAD = 0.8
"""Share of the mean interval by which an interval is drawn shorter or longer at most: from 1 - SPREAD to 1 + SPREAD of
it."""
LEAST_COUNT = 2
"""The mean time between readings is at most the trial's least time over this number, but not less than LEAST_S. So
every interval is shorter than a trial of 0.2 s or more, and at least one reading is in mid-run. Where the least time is
not known (commands, `compute: real`), a short trial may have none."""


@dataclass(frozen=True)
class Made:
    """A reading: when it began and ended (``time.monotonic``), and how many directed links it covered."""

    begun_s: float
    done_s: float
    links: int


@dataclass
class Readings:
    """Readings while a trial's processes ran, and when each difference was seen (``time.monotonic``). Processes start
    before training and end after it, so not every reading is in the midst of it."""

    made: list[Made] = field(default_factory=list)
    cost_s: float = 0.0
    seen_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def within(self, start_s: float, end_s: float) -> tuple[int, ...]:
        """Number of directed links of each reading that began and ended between these moments."""
        return tuple(one.links for one in self.made if start_s <= one.begun_s and one.done_s <= end_s)

    def differs(self, start_s: float, after: str | None) -> str | None:
        """Describe what the kernel had otherwise than asked for: each difference with how often and when it was seen,
        counted from ``start_s``, then what there is ``after`` the trial; None if nothing."""
        return "; ".join(filter(None, [self._told(start_s), after])) or None

    def _told(self, start_s: float) -> str | None:
        if not self.seen_s:
            return None
        told = [
            f"{what} (in {len(moments)} of {len(self.made)} readings, from {moments[0] - start_s:.1f} s to "
            f"{moments[-1] - start_s:.1f} s after the start)"
            for what, moments in self.seen_s.items()
        ]
        return f"while processes ran, {shortened(told, MOST_TOLD, '; ', 'others')}"


MOST_TOLD = 3
"""The most differences that a sentence names."""


def mean_s(cost_s: float, trial_s: float = math.inf) -> float:
    """Mean time between readings (s) that take so long of a CPU each, in a trial that takes so long."""
    return min(MOST_S, max(LEAST_S, min(PERIODS * cost_s, trial_s / LEAST_COUNT)))


class SpotChecks:
    """Spot checks from ``with`` to its end; ``readings`` is complete after it. ``trial_s`` is what the trial takes at
    least, if that is known.

    Raises:
        LabError: at the end, if links could not be read.
    """

    def __init__(self, lab: Lab, trial_s: float = math.inf) -> None:
        self._lab, self._trial_s = lab, trial_s
        self.readings = Readings()
        self._error: LabError | None = None
        self._random = random.SystemRandom()
        self._thread = Repeating("spot-checks", self._run())

    def __enter__(self) -> SpotChecks:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.close()
        if self._error is not None and error is None:
            raise self._error

    # The thread.

    def _run(self) -> Generator[float, None, None]:
        """Read links again and again; yield how long to wait (s)."""
        period_s = mean_s(0.0, self._trial_s)
        while True:
            yield period_s * self._random.uniform(1 - SPREAD, 1 + SPREAD)
            try:
                period_s = mean_s(self._read(), self._trial_s)
            except Exception as error:  # whatever it is, nobody looks any more
                self._error = error if isinstance(error, LabError) else LabError(f"links could not be read: {error!r}")
                return

    def _read(self) -> float:
        """Read links once; return the CPU time that it has taken, here and in the lab (s)."""
        before_s, begun_s = time.thread_time(), time.monotonic()
        found = self._lab.spot_check()
        done_s = time.monotonic()
        if found.links:
            self.readings.made.append(Made(begun_s, done_s, found.links))
        for difference in found.differs:
            self.readings.seen_s[difference].append(done_s)
        cost_s = found.cost_s + time.thread_time() - before_s
        self.readings.cost_s += cost_s
        return cost_s
