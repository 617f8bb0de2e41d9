"""Processor of this machine."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_model() -> str:
    """Name that the processor gives itself."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or platform.machine()
