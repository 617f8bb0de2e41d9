"""Settings of this machine's kernel."""

from __future__ import annotations

from pathlib import Path


def sysctl(name: str) -> str | None:
    """A kernel setting, None where this kernel does not have it or keeps it from us."""
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None
