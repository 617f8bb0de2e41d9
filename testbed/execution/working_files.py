"""A trial on the disk: folders for what its processes read and write, and the room that it needs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from testbed.base.errors import DiskFullError
from testbed.base.units import size_text
from testbed.files.removal import remove
from testbed.files.writing import named_errors, names_in, opened_folder
from testbed.trial.files import WORK, Files
from testbed.trial.job import Job
from testbed.trial.model import Trial


@contextmanager
def working_files(run_dir: Path, trial: Trial) -> Iterator[Files]:
    """Make directories for a trial's files; at its end, remove those that are only needed meanwhile. The logs stay.

    Raises:
        DiskFullError, OutputError: they cannot be made, or would be behind a link.
    """
    path = run_dir.resolve()
    nodes = trial.topology.nodes
    homes = {process: nodes[node].name for process, node in trial.homes.items()}
    program = trial.spec.workload.program
    python = (program and program.python) or sys.executable
    lacks = partial(trial.spec.place.lacks, python=python, options=trial.spec.lab_options)
    files = Files(path / WORK / trial.id, path / "logs" / trial.id, homes, role=trial.role, lacks=lacks)
    with named_errors(files.work), opened_folder(path) as run:
        for name in (WORK, "logs"):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=run)
            with opened_folder(name, run) as folder:
                remove(trial.id, folder)
                os.mkdir(trial.id, 0o700, dir_fd=folder)  # nobody runs what a process may make of its log meanwhile
        with suppress(FileNotFoundError), opened_folder("outputs", run) as folder:  # of an earlier attempt
            remove(trial.id, folder)
        files.make(trial.topology)
        if program:
            files.shared.mkdir(0o700)
    try:
        yield files
    finally:
        # What cannot be removed is told when the run is closed. Other trials may run at the same time.
        with suppress(OSError), opened_folder(path) as run, opened_folder(WORK, run) as folder:
            remove(trial.id, folder)
        with suppress(OSError), opened_folder(path) as run, opened_folder("logs", run) as logs:
            publish(trial.id, logs)


def publish(name: str, logs: int) -> None:
    """Let others read a trial's logs, in the folder that is open as ``logs``. Processes that wrote to them may have
    made programs of them, which would run with our rights whoever calls them.

    Raises:
        OSError: the system refuses.
    """
    with opened_folder(name, logs) as folder:
        for log in names_in(folder):
            descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            os.fchmod(descriptor, 0o644)
            os.close(descriptor)
        os.fchmod(folder, 0o755)


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
