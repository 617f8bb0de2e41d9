"""Vital signs of a process while it trains: its CPU time, how late its timers come, and the segments that TCP sent
twice.

Lateness is sampled by a thread that sleeps for a while again and again, and looks at the clock after. It shares clock,
scheduler and timer slack with the worker, so what delays one's waits delays the other's. Looking at the worker's own
waits instead would see paced workers only.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from testbed.base.repeating import Repeating

PERIOD_S = 0.02
"""Time (s) between samples, so that every synchronisation has some; fifty a second take 0.2 % of a core
(benchmarks/monitoring_cost.py)."""
STALL_S = 0.05
"""Overrun (s) above which a sleep is a standstill. The latest of thousands of sleeps overran by 4 to 32 ms in good
trials, whose engines were busy."""
HALT_S = 0.003
"""Overrun (s) as STALL_S, for brief stops too, without the part for which the thread waited for a core: that is judged
by itself ("run queue"), and was nearly all of the lateness where nine workers shared two cores (3 to 28 ms a sleep).
The sum shows a process that is stopped for 45 ms in every 100 ms. Only the part of a stop after the sleep's due end
counts, so most stops count for less than they last."""
WAITED = Path("/proc/thread-self/schedstat")
"""File whose second number is for how long (ns) the thread has waited for a core (kernel: sched-stats.rst); 0 or no
file where the kernel does not count that, and then all lateness counts."""
SNMP = Path("/proc/self/net/snmp")
"""File of TCP's counters of this network namespace (kernel: networking/snmp_counter.rst)."""
NETSTAT = Path("/proc/self/net/netstat")
"""File of further counters of TCP."""


@dataclass(frozen=True)
class Report:
    """Vital signs of one process, from the beginning of training to its end.

    ``late_s`` is the median of by how much a sleep overran, ``stalled_s`` the sum of those above :data:`STALL_S`, and
    ``halted_s`` of those above :data:`HALT_S`, waits for a core left out; TCP segments are those of the whole host, and
    the ``needless_segments`` are those of the resent ones that had arrived before. None where they were not watched.
    ``watched_s`` is for how long the process was watched.
    """

    cpu_s: float
    late_s: float | None
    stalled_s: float | None
    halted_s: float | None
    sent_segments: int | None
    resent_segments: int | None
    needless_segments: int | None
    watched_s: float | None = None


class _Stops(NamedTuple):
    """Overruns (s) of sleeps that lasted until now, summed, and when the one that lasts is due to end. The tuple is
    replaced as a whole, so that no stop is missed, or counted twice, by another thread that asks while one sleep
    ends."""

    stalled_s: float
    halted_s: float
    due_s: float


class _Sleeper:
    """Thread that samples timers, one for all parts of a process, while one of them is watched. A process that eight
    jobs share has eight parts, and each sleep takes processor time.

    Attributes:
        late_s: overrun (s) of each sleep so far.
    """

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self._stops = _Stops(0.0, 0.0, math.inf)
        self._watching, self._lock = 0, Lock()

    def begin(self) -> None:
        with self._lock:
            if not self._watching:
                self._thread = Repeating("vitals", self._sample())
                self._thread.start()
            self._watching += 1

    def end(self) -> None:
        with self._lock:
            self._watching -= 1
            if not self._watching:
                self._thread.close()
                self._stops = self._stops._replace(due_s=math.inf)

    def stood_s(self) -> tuple[float, float]:
        """Return for how long (s) this process has stood still so far, as :class:`Report` has it, ``stalled_s`` and
        ``halted_s``, with a long stop that still lasts. Of a brief one that lasts, it is not known yet whether it is a
        wait for a core."""
        stops = self._stops
        lasts_s = _above(STALL_S, time.monotonic() - stops.due_s)
        return stops.stalled_s + lasts_s, stops.halted_s + lasts_s

    def _sample(self) -> Generator[float, None, None]:
        """Sample timers again and again. The generator sleeps by itself, as the worker does, so it never asks to
        wait."""
        stalled_s, halted_s, _ = self._stops
        with _waits() as so_far_s:
            waited_s = so_far_s()
            while True:
                due_s = time.monotonic() + PERIOD_S
                self._stops = _Stops(stalled_s, halted_s, due_s)
                time.sleep(PERIOD_S)
                late_s = time.monotonic() - due_s
                before_s, waited_s = waited_s, so_far_s()
                self.late_s.append(late_s)
                stalled_s += _above(STALL_S, late_s)
                halted_s += _above(HALT_S, late_s - (waited_s - before_s))
                self._stops = _Stops(stalled_s, halted_s, math.inf)  # it may be asked to end now
                yield 0.0


_SLEEPER = _Sleeper()


class Vitals:
    """Watch over this process from ``with`` to its end; ``watched`` False only takes the CPU time, which costs
    nothing."""

    def __init__(self, watched: bool = True, snmp: Path = SNMP, netstat: Path = NETSTAT) -> None:
        self._watched, self._snmp, self._netstat = watched, snmp, netstat
        self.entered = False

    def __enter__(self) -> Vitals:
        self.entered = True
        self._began_s, self._entered_s = time.process_time(), time.monotonic()
        if self._watched:
            self._began_segments = self._segments()
            self._first, self._stood_s = len(_SLEEPER.late_s), _SLEEPER.stood_s()
            _SLEEPER.begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._watched:
            _SLEEPER.end()

    def report(self) -> Report:
        """Report until now; to be called at once at the end."""
        cpu_s = time.process_time() - self._began_s
        if not self._watched:
            return Report(cpu_s, *[None] * 6)
        sent, resent, in_vain = (now - then for now, then in zip(self._segments(), self._began_segments, strict=True))
        late_s = _SLEEPER.late_s[self._first :]
        watched_s = time.monotonic() - self._entered_s
        return Report(
            cpu_s, statistics.median(late_s) if late_s else None, *self._since(), sent, resent, in_vain, watched_s
        )

    def halted_s(self) -> float | None:
        """Return for how long (s) this process has stood still so far, with brief stops; None if it is not watched."""
        return self._since()[1] if self._watched else None

    def _since(self) -> tuple[float, float]:
        """Return for how long (s) the process has stood still since the beginning; 0 or more, though a stop that
        lasted then may have been a wait for a core."""
        stalled_s, halted_s = _SLEEPER.stood_s()
        return max(0.0, stalled_s - self._stood_s[0]), max(0.0, halted_s - self._stood_s[1])

    def _segments(self) -> tuple[int, int, int]:
        return *segments(self._snmp.read_text()), needless(self._netstat.read_text())


@contextmanager
def _waits() -> Iterator[Callable[[], float]]:
    """Give a function that says for how long this thread has waited for a core so far (s). The file stays open, for to
    open it takes longer than to read it."""
    try:
        file = os.open(WAITED, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(file, 100, 0).split()[1]) / 1e9
    finally:
        os.close(file)


def _above(least_s: float, late_s: float) -> float:
    return late_s if late_s > least_s else 0.0


def together(reports: Sequence[Report]) -> Report:
    """Merge reports of a process that trained in several stretches: sums, and the latest timers."""

    def merged(name: str, how: Callable[[Iterable[Any]], Any] = sum) -> Any:
        known = [value for one in reports if (value := getattr(one, name)) is not None]
        return how(known) if known else None

    names = [field.name for field in fields(Report)]
    merge = {name: merged(name, max if name == "late_s" else sum) for name in names}
    return Report(**merge | {"cpu_s": sum(one.cpu_s for one in reports)})


def segments(snmp: str) -> tuple[int, int]:
    """Return TCP segments sent, without those sent again, and segments sent again, from the text of /proc/net/snmp."""
    found = _counters(snmp, "Tcp:")
    return found["OutSegs"], found["RetransSegs"]


def needless(netstat: str) -> int:
    """Return segments that were sent again and had arrived, as their receivers said (RFC 2883), from the text of
    /proc/net/netstat. Kernels before 5.10 count acknowledgements that say so: no more than segments."""
    found = _counters(netstat, "TcpExt:")
    return found.get("TCPDSACKRecvSegs", found.get("TCPDSACKRecv", 0))


def _counters(text: str, of: str) -> dict[str, int]:
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith(of))
    return dict(zip(names, map(int, values), strict=True))
