"""Meter of this process: the clock, its CPU time, and how long it was ready to run but had no core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TASKS = Path("/proc/self/task")
"""Directory with one for each thread, in which ``schedstat`` has ns on a core, ns waiting in a run queue, time slices
(kernel: sched-stats.rst)."""


@dataclass(frozen=True)
class Moment:
    """Measurements at one moment, in seconds: ``time.monotonic``, CPU time of the process, run-queue wait of its
    threads together, and for how long the process stood still (None where not counted)."""

    time_s: float
    cpu_s: float
    wait_s: float | None
    halted_s: float | None

    def since(self, earlier: Moment) -> tuple[float, float | None, float | None]:
        """Return CPU time, run-queue wait and standstill between two moments."""
        wait = None if self.wait_s is None or earlier.wait_s is None else self.wait_s - earlier.wait_s
        halted = None if self.halted_s is None or earlier.halted_s is None else self.halted_s - earlier.halted_s
        return self.cpu_s - earlier.cpu_s, wait, halted


class Meter:
    """Reader of moments; construct it in the process to be measured, after it has done some work.

    ``counts_waits`` is False where the kernel does not count run-queue waits: the files are missing, or say 0 for a
    process that has slept and been woken many times. Threads that start later are not counted; of one that has ended,
    what it had waited when it was last read.
    """

    def __init__(self, tasks: Path = TASKS) -> None:
        self.halted_s: Callable[[], float | None] = lambda: None
        """Function that says for how long this process has stood still
        (:meth:`testbed.workloads.process.vitals.Vitals.halted_s`)."""
        self._waited_ns: dict[int, int] = {}
        """Last reading of each thread's open file."""
        for path in sorted(tasks.glob("*/schedstat")):
            with suppress(FileNotFoundError):  # ended since it was listed
                self._waited_ns[os.open(path, os.O_RDONLY | os.O_CLOEXEC)] = 0
        self.counts_waits = self._read_ns() > 0
        if not self.counts_waits:
            self.close()

    def _read_ns(self) -> int:
        for file in self._waited_ns:
            with suppress(ProcessLookupError):  # the thread has ended
                self._waited_ns[file] = int(os.pread(file, 100, 0).split()[1])
        return sum(self._waited_ns.values())

    def now(self) -> Moment:
        """Measure this moment; that costs a few microseconds."""
        wait = self._read_ns() / 1e9 if self.counts_waits else None
        return Moment(time.monotonic(), time.process_time(), wait, self.halted_s())

    def close(self) -> None:
        """Close the files."""
        for file in self._waited_ns:
            os.close(file)
        self._waited_ns.clear()
