"""Folders for what a trial's processes read and write: made before they start, and removed or published at its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from testbed.files.removal import remove
from testbed.files.writing import named_errors, names_in, opened_folder
from testbed.trial.files import WORK, Files
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
