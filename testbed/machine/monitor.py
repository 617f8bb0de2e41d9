"""How busy the machine's CPUs were, at any moment of a trial: /proc/stat, read on the side."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from testbed.base.repeating import Repeating

PERIOD_S = 0.05
"""The kernel counts in ticks of 10 ms, so a shorter period would not see more."""


@dataclass
class CpuLog:
    """Seconds of CPU time, over all cores that we may use, counted since boot: one entry for each reading.

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


def read_cpu(text: str, cores: Collection[int], ticks_per_s: int = 100) -> tuple[float, float, float]:
    """(idle, steal, total) CPU seconds since boot, summed over ``cores``, from the text of /proc/stat (proc(5)).

    Waiting for a disk is idle; guest time is already part of user time.
    """
    wanted = {f"cpu{core}" for core in cores}
    idle_ticks = steal_ticks = total_ticks = 0
    for line in text.splitlines():
        name, *words = line.split(maxsplit=9)
        if name in wanted:
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, words[:8])
            idle_ticks += idle + iowait
            steal_ticks += steal
            total_ticks += user + nice + system + idle + iowait + irq + softirq + steal
    return idle_ticks / ticks_per_s, steal_ticks / ticks_per_s, total_ticks / ticks_per_s


class Watch(Protocol):
    """Looks at CPUs from ``with`` to its end; ``log`` is complete after it."""

    @property
    def log(self) -> CpuLog: ...
    def __enter__(self) -> Watch: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Monitor:
    """Reads the counters of the cores that we may use every ``PERIOD_S`` in a thread, from ``with`` to its end."""

    def __init__(self) -> None:
        self._log = CpuLog()
        self._thread = Repeating("cpu-monitor", self._run())

    @property
    def log(self) -> CpuLog:
        """What was read so far."""
        return self._log

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.close()

    def _run(self) -> Generator[float, None, None]:
        """Yields how long to wait."""
        cores, ticks_per_s = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
        with Path("/proc/stat").open() as file:
            while True:
                file.seek(0)
                self._log.add(time.monotonic(), *read_cpu(file.read(), cores, ticks_per_s))
                yield PERIOD_S
