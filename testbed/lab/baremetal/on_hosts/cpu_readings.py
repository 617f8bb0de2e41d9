"""CPU time of a host, told to the controller while it watches."""

from __future__ import annotations

from pathlib import Path

from testbed.lab.baremetal.on_hosts.processes import tell
from testbed.machine.monitor import Counters

TOGETHER = 20
"""Number of readings that are told at a time."""


class CpuReadings:
    """Readings of CPUs that are not told yet."""

    def __init__(self) -> None:
        self.watched = False
        self._readings: list[tuple[float | None, ...]] = []
        self._counters = Counters()

    def watch(self, on: bool) -> None:
        """Begin to read, or end it and tell the rest."""
        self.watched = on
        if on:
            self._counters = Counters()  # quotas may have changed since the last trial
        else:
            self._tell()

    def read(self, now_s: float) -> None:
        """Read once if somebody watches."""
        if not self.watched:
            return
        self._readings.append((now_s, *self._counters.read(Path("/proc/stat").read_text())))
        if len(self._readings) == TOGETHER:
            self._tell()

    def _tell(self) -> None:
        tell(cpu=self._readings)
        self._readings = []
