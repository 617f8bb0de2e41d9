"""Monitor of the machine's CPUs during a trial: how busy they were at any moment, how long a quota kept processes from
them, and whether processes ran."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from testbed.base.repeating import Repeating
from testbed.machine.cgroups import limits, quotas_above, throttled_s
from testbed.machine.processes import ProcessLog, ProcessWatch

PERIOD_S = 0.05
"""Seconds between readings. The kernel counts in ticks of 10 ms, so a shorter period would not see more."""


@dataclass
class CpuLog:
    """Log of CPU time in seconds, over all cores that we may use, counted since boot: one entry for each reading.

    ``at_s`` is on the clock of time.monotonic, as the workers' samples are. ``throttled_s`` is for how long quotas have
    kept processes from cores: 0 where no group has a quota, NaN where that is not known.
    """

    at_s: list[float] = field(default_factory=list)
    idle_s: list[float] = field(default_factory=list)
    steal_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    throttled_s: list[float] = field(default_factory=list)

    def add(self, at_s: float, idle_s: float, steal_s: float, total_s: float, throttled_s: float | None = None) -> None:
        """Note one reading."""
        self.at_s.append(at_s)
        self.idle_s.append(idle_s)
        self.steal_s.append(steal_s)
        self.total_s.append(total_s)
        self.throttled_s.append(math.nan if throttled_s is None else throttled_s)


def read_cpu(text: str, cores: Collection[int], ticks_per_s: int = 100) -> tuple[float, float, float]:
    """Read (idle, steal, total) CPU seconds since boot, summed over ``cores``, from the text of /proc/stat (proc(5)).

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


class Counters:
    """Counters of the cores that we may use, and of the groups that have a quota by now.

    Args:
        boxed: processes that lie in groups of their own, whose quotas were asked for; those of groups above count.
    """

    def __init__(self, boxed: Sequence[int] = ()) -> None:
        here = limits()
        found = [here.quotas if here.is_known else None, *map(quotas_above, boxed)]
        self._groups = {quota.directory for quotas in found for quota in quotas or ()}
        self._known = None not in found
        self._cores, self._ticks_per_s = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")

    def read(self, stat: str) -> tuple[float, float, float, float | None]:
        """Read (idle, steal, total, throttled) seconds, now, with the text of /proc/stat; None where it is not
        known."""
        throttled = throttled_s(self._groups) if self._known else None
        return *read_cpu(stat, self._cores, self._ticks_per_s), throttled


class Watch(Protocol):
    """Watch of CPUs and of processes on the nodes from ``with`` to its end; ``log`` and ``processes`` are complete
    after it."""

    @property
    def log(self) -> CpuLog: ...
    @property
    def processes(self) -> ProcessLog: ...
    def __enter__(self) -> Watch: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Monitor:
    """Monitor that reads the counters of the cores that we may use every ``PERIOD_S`` in a thread, from ``with`` to its
    end, and in another looks at processes, as :class:`testbed.machine.processes.ProcessWatch`.

    Args:
        roots: by name, the PID of each process that runs now.
        boxed: as in :class:`Counters`.
    """

    def __init__(self, roots: Callable[[], Mapping[str, int]] = dict, boxed: Sequence[int] = ()) -> None:
        self._log, self._watch, self._boxed = CpuLog(), ProcessWatch(roots), boxed
        self._thread = Repeating("cpu-monitor", self._run())
        self._other_thread = Repeating("process-watch", self._look())

    @property
    def log(self) -> CpuLog:
        """Readings so far."""
        return self._log

    @property
    def processes(self) -> ProcessLog:
        """Looks at processes so far."""
        return self._watch.log

    def __enter__(self) -> Monitor:
        self._thread.start()
        self._other_thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.close()
        self._other_thread.close()
        self._watch.look()  # what was lost since the last look is known by the next one
        self._watch.close()

    def _look(self) -> Generator[float, None, None]:
        """Look at processes again and again; yield how long to wait (s)."""
        while True:
            yield self._watch.look()

    def _run(self) -> Generator[float, None, None]:
        """Read counters again and again; yield how long to wait (s)."""
        counters = Counters(self._boxed)
        with Path("/proc/stat").open() as file:
            while True:
                file.seek(0)
                self._log.add(time.monotonic(), *counters.read(file.read()))
                yield PERIOD_S
