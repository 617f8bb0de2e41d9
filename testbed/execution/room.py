"""Room on the disk: what a trial needs before it starts, and whether its lack is why one failed."""

from __future__ import annotations

import shutil
from pathlib import Path

from testbed.base.errors import DiskFullError
from testbed.base.units import size_text
from testbed.trial.job import Job
from testbed.trial.model import Trial

LINE_BYTES = 400
"""Bytes of a line that tells of an iteration."""
LEAST_ROOM_BYTES = 2**20
"""Bytes: with less than this left on the disk, that is why a trial failed."""


def needed_bytes(trial: Trial) -> int:
    """Return the bytes that a trial takes on the disk while it runs: of each job the weights, the plan, and each
    worker's own files. In simulated time there are only the samples."""
    if trial.spec.place.plays:
        return sum(LINE_BYTES * job.iterations * job.world for job in trial.jobs)
    return sum(map(_needed_bytes, trial.jobs))


def _needed_bytes(job: Job) -> int:
    own = 64 * 2**10 + LINE_BYTES * job.iterations
    data = job.own.nbytes if job.own else 0
    kept = 2 * round(sum(job.checkpoints.values()))  # the last one stays until the next one is complete
    return job.saved_bytes + job.plan.nbytes + data + own * job.world + kept


def most_said_bytes(job: Job) -> int:
    """Return the most bytes that a process of a job writes: a line for each iteration, and in the last line sketches
    and updates."""
    return 2**20 + job.iterations * (4096 + job.kind.reports.said_bytes(job.plan) * job.world)


def blame_full_disk(trial: Trial, directory: Path) -> None:
    """
    Raises:
        DiskFullError: the disk is full, so whatever a trial's processes said before they failed, that is why.
    """
    free = shutil.disk_usage(directory).free
    if free < LEAST_ROOM_BYTES:
        raise DiskFullError(
            f"{directory}: the disk is full, and so {trial.id} failed",
            fix="free some space, then go on with testbed run --resume; finished trials are kept",
        )


def check_room(directory: Path, needed: int) -> None:
    """
    Raises:
        DiskFullError: fewer than ``needed`` bytes are left on the disk.
    """
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise DiskFullError(
            f"{directory}: {size_text(free)} are left on the disk, the next trial needs {size_text(needed)}",
            fix="free some space, then go on with testbed run --resume; finished trials are kept",
        )
