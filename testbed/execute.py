"""One trial in one lab: build the network, start the workers, wait, gather what was seen into the trial's record."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from testbed import jobs, results, watch
from testbed.errors import DiskFullError, TrialError
from testbed.files import named_errors
from testbed.jobs import Files
from testbed.lab.base import Counters, Lab, LinkSettings
from testbed.monitor import CpuLog, Monitor
from testbed.referee import REFERENCE, TOLERANCE, TRAINING_TOLERANCE, Referee
from testbed.trials import Trial
from testbed.units import size_text
from workloads.sync.cost import goodput

Lines = list[dict[str, Any]]


@dataclass
class Observed:
    """What one trial left behind: each process's lines, the kernel's counts, the CPUs' log and the lab as read back."""

    lines: dict[str, Lines]
    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]

    def of(self, kind: str) -> Lines:
        """The lines of one kind, each with its process's ``name``."""
        return [{**line, "name": name} for name, lines in self.lines.items() for line in lines if line["kind"] == kind]


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its record (the trial's JSON), its samples, and the lab as read back."""

    record: dict[str, Any]
    samples: pd.DataFrame | None
    lab: dict[str, Any]


def execute(
    trial: Trial, lab: Lab, referee: Referee, run_dir: Path, congestion_control: str, tick: Callable[[int], None]
) -> Outcome:
    """Run a trial; one that fails has an Outcome too, with ``status`` failed and the reason, and its lab is closed.

    Raises:
        PrivilegeError, DiskFullError, OutputError: what would fail every other trial as well.
    """
    started, began_s = datetime.now(UTC), time.monotonic()
    record = blank(trial) | {"started": started.isoformat(timespec="seconds")}
    samples, seen = None, None
    check_room(run_dir, needed_bytes(trial))
    with _working_files(run_dir, trial.id) as files:
        try:
            seen = observe(trial, lab, files, congestion_control, tick)
            samples = results.table(seen.of("iteration"))
            check_loss(samples)
            record |= summary(trial, seen, samples)
            found = accuracy(trial, seen, referee, files)
            record["accuracy"] = storable(found)
