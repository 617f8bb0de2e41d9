"""What this process has used: the clock, its CPU time, and how long it was ready to run but had no core."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

SCHEDSTAT = Path("/proc/self/schedstat")
"""Of the main thread: ns on a core, ns waiting in a run queue, time slices (kernel: sched-stats.rst)."""


@dataclass(frozen=True)
class Moment:
    """Seconds: ``time.monotonic``, CPU time of the process, run-queue wait (None where not counted)."""

    time_s: float
    cpu_s: float
    wait_s: float | None

    def since(self, earlier: Moment) -> tuple[float, float | None]:
        """CPU time and run-queue wait between two moments."""
        wait = None if self.wait_s is None or earlier.wait_s is None else self.wait_s - earlier.wait_s
        return self.cpu_s - earlier.cpu_s, wait


class Meter:
    """Reads moments; construct it in the process to be measured, after it has done some work.

    ``counts_waits`` is False where the kernel does not count run-queue waits: the file is missing, or says 0 for a
    process that has slept and been woken many times.
    """

    def __init__(self, schedstat: Path = SCHEDSTAT) -> None:
        try:
            self._file: int | None = os.open(schedstat, os.O_RDONLY)
        except OSError:
            self._file = None
        if self._waited_ns() == 0:
            self.close()
        self.counts_waits = self._file is not None

    def _waited_ns(self) -> int:
        return 0 if self._file is None else int(os.pread(self._file, 100, 0).split()[1])

    def now(self) -> Moment:
        """This moment; costs a few microseconds."""
        wait = self._waited_ns() / 1e9 if self.counts_waits else None
        return Moment(time.monotonic(), time.process_time(), wait)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
