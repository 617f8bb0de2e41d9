"""How busy the CPUs of a host are, told to the controller while it watches."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.lab.baremetal.processes import tell
from testbed.machine.monitor import read_cpu

TOGETHER = 20
"""Readings that are told at a time."""


class CpuReadings:
    """Readings that are not told yet."""

    def __init__(self) -> None:
        self.watched = False
        self._readings: list[tuple[float, ...]] = []

    def watch(self, on: bool) -> None:
        """Begin to read, or end it and tell the rest."""
        self.watched = on
        if not on:
            self._tell()

    def read(self, now_s: float) -> None:
        """Read once if somebody watches."""
        if not self.watched:
            return
        cores, ticks = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK")
        self._readings.append((now_s, *read_cpu(Path("/proc/stat").read_text(), cores, ticks)))
        if len(self._readings) == TOGETHER:
            self._tell()

    def _tell(self) -> None:
        tell(cpu=self._readings)
        self._readings = []
