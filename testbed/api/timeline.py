"""The file of a trial's timeline, made from a run directory of whomever it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from testbed.analysis.chrome_trace import trace
from testbed.analysis.load import load, read_samples
from testbed.base.errors import OutputError
from testbed.base.nearest import nearest
from testbed.files.writing import write_bytes


def write(run_dir: Path, trial_id: str, out: Path) -> int:
    """Write the timeline of a trial; return how many events it has.

    Raises:
        OutputError: the run has no such trial, is damaged, or left nothing to draw; or the file cannot be written.
        DiskFullError: no room is left.
    """
    trials = {one.id: one for one in load(run_dir, samples=False).trials}
    if trial_id not in trials:
        raise OutputError(f"{run_dir}: there is no trial {trial_id!r:.200}", fix=nearest(trial_id, list(trials)))
    trial = trials[trial_id]
    found = trace(replace(trial, samples=read_samples(run_dir, trial_id, needed=False, warmup=0)))
    write_bytes(out, json.dumps(found, ensure_ascii=False, allow_nan=False).encode())
    return len(found["traceEvents"])
