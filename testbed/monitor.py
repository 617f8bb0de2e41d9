"""How busy the machine's CPUs were, at any moment of a trial: /proc/stat, read on the side."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

PERIOD_S = 0.05
"""The kernel counts in ticks of 10 ms, so a shorter period would not see more."""


@dataclass
class CpuLog:
    """Seconds of CPU time, over all cores, counted since boot: one entry for each reading.

    ``at_s`` is on the clock of time.monotonic, as the workers' samples are.
    """

    at_s: list[float] = field(default_factory=list)
    idle_s: list[float] = field(default_factory=list)
    steal_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)

    def add(self, at_s: float, idle_s: float, steal_s: float, total_s: float) -> None:
        """Note one reading."""
        self.at_s.append(at_s)
        self.idle_s.append(idle_s)
        self.steal_s.append(steal_s)
        self.total_s.append(total_s)


def read_cpu(text: str, ticks_per_s: int = 100) -> tuple[float, float, float]:
    """(idle, steal, total) CPU seconds since boot from the first line of /proc/stat (proc(5)).

    Waiting for a disk is idle; guest time is already part of user time.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in text.split()[1:9])
    total = user + nice + system + idle + iowait + irq + softirq + steal
    return (idle + iowait) / ticks_per_s, steal / ticks_per_s, total / ticks_per_s


class Monitor:
    """Reads the CPUs' counters every ``PERIOD_S`` in a thread, from ``with`` to its end."""

    def __init__(self, source: Path = Path("/proc/stat")) -> None:
        self.log = CpuLog()
        self._source = source
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-monitor", daemon=True)

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._source.open() as file:
            while True:
                file.seek(0)
                self.log.add(time.monotonic(), *read_cpu(file.readline()))
                if self._stop.wait(PERIOD_S):
                    return
