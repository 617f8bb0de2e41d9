"""A control group of a test's own with a quota of CPU time, of whichever version this machine has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testbed.machine import cgroups

PERIOD_US = 100_000


@contextmanager
def group(controller: str, **files: str) -> Iterator[Path]:
    """A new, empty group below this process's own, with these files written (``__`` for a dot), removed at the end.
    Skips the test where that is impossible."""
    above = cgroups._groups(controller, "self", cgroups.ROOT)
    if not above:
        pytest.skip(f"no hierarchy of control groups has {controller} here")
    place = above[0] / f"testbed-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in {above[0]}: {error.strerror}")
    try:
        try:
            for name, text in files.items():
                (place / name.replace("__", ".")).write_text(text)
        except OSError as error:
            pytest.skip(f"{controller} is not enabled below {above[0]}: {error.strerror}")
        yield place
    finally:
        removed(place)


def removed(place: Path) -> None:
    """Remove a group. The kernel takes a moment to forget processes that have ended."""
    for _ in range(100):
        with suppress(OSError):
            place.rmdir()
            return
        time.sleep(0.02)
    place.rmdir()


@contextmanager
def quota(cores: float) -> Iterator[Path]:
    """A group with a quota of so many cores."""
    quota_us = round(cores * PERIOD_US)
    above = cgroups._groups("cpu", "self", cgroups.ROOT)
    if above and (above[0] / "cpu.cfs_quota_us").exists():
        with group("cpu", cpu__cfs_period_us=str(PERIOD_US), cpu__cfs_quota_us=str(quota_us)) as place:
            yield place
    else:
        with group("cpu", cpu__max=f"{quota_us} {PERIOD_US}") as place:
            yield place
