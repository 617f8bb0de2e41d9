"""CPU time of a host, and whether its workers stand still: read beside them, and told to the controller while it
watches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.lab.baremetal.on_hosts.processes import tell
from testbed.machine.monitor import Counters
from testbed.machine.processes import ProcessWatch

TOGETHER = 20
"""Number of readings, and of looks, that are told at a time."""
Row = tuple[str, float, float, float, bool]
"""A process's name; for how long (s) it was stopped, was kept from running, and waited for a core, since it was first
looked at; and whether the kernel counts such waits."""


class Readings:
    """Readings of CPUs, and looks at workers, that are not told yet.

    Args:
        roots: by name, the PIDs of the workers that run.
    """

    def __init__(self, roots: Callable[[], Mapping[str, int]]) -> None:
        self._roots = roots
        self._counters = Counters()
        self._watch: ProcessWatch | None = None
        self._due_s = 0.0
        self._cpu: list[tuple[float | None, ...]] = []
        self._looks: list[tuple[float, list[Row]]] = []

    @property
    def watched(self) -> bool:
        return self._watch is not None

    def watch(self, on: bool) -> None:
        """Begin to read and to look, or end it and tell the rest."""
        if self._watch is not None:
            self._due_s = 0.0
            self.look(time.monotonic())  # what was lost since the last look is known by the next one
            self._watch.close()
            self._tell()
        self._watch = ProcessWatch(self._roots) if on else None
        self._counters = Counters()  # quotas may have changed since the last trial

    def pause_s(self, most_s: float) -> float:
        """Seconds to wait until the next look, at most ``most_s``."""
        return most_s if self._watch is None else min(most_s, max(0.0, self._due_s - time.monotonic()))

    def read(self, now_s: float) -> None:
        """Read the CPUs once if somebody watches."""
        if self._watch is None:
            return
        self._cpu.append((now_s, *self._counters.read(Path("/proc/stat").read_text())))
        if len(self._cpu) == TOGETHER:
            self._tell()

    def look(self, now_s: float) -> None:
        """Look at workers once if somebody watches and it is time."""
        if self._watch is None or now_s < self._due_s:
            return
        self._due_s = now_s + self._watch.look()
        log = self._watch.log
        rows = [
            (name, one.stopped_s[-1], one.starved_s[-1], one.waited_s[-1], one.counts_waits)
            for name, one in log.of.items()
            if one.at_s and one.at_s[-1] == log.looked_s
        ]
        self._looks.append((log.looked_s, rows))
        if len(self._looks) == TOGETHER:
            self._tell()

    def _tell(self) -> None:
        if self._cpu:
            tell(cpu=self._cpu)
        if self._looks:
            tell(looks=self._looks)
        self._cpu, self._looks = [], []
