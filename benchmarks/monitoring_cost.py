"""The cost of monitoring: JCT with the monitors over JCT without them.

    python benchmarks/monitoring_cost.py [--pairs N]

What runs while a trial does is the harness's reading of /proc/stat and of the states of all processes, its reading of
links' rates at random times and, in each worker, the thread that samples how late timers are. Trials of nine workers
that fill 18 links, which keeps two cores busy for a third of the time, run in pairs, with and without, in an order that
alternates. Reach: the median of the ratios at most 1.02.

What each iteration reads of clocks, CPU time and run-queue wait is in both, a few microseconds. Calibration and reading
back come before and after.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import in_pairs

from testbed.evidence import spot_checks
from testbed.machine import monitor, processes
from testbed.trial import job_files
from testbed.workloads.job import WorkerJob

NEVER_S = 3600.0


def measure(watched: bool) -> dict[str, Any]:
    """The record of one trial."""
    written = job_files.worker_jobs

    def unwatched(*arguments: Any) -> Iterator[WorkerJob]:
        yield from (replace(job, watched=False) for job in written(*arguments))

    with ExitStack() as changes:
        if not watched:
            changes.enter_context(mock.patch.object(job_files, "worker_jobs", unwatched))
            changes.enter_context(mock.patch.object(monitor, "PERIOD_S", NEVER_S))
            changes.enter_context(mock.patch.object(processes.ProcessWatch, "look", return_value=NEVER_S))
            changes.enter_context(mock.patch.object(spot_checks, "mean_s", return_value=NEVER_S))
        record = in_pairs.trial()
    seen = next(check for check in record["fidelity"]["checks"] if check["name"] == "timers")
    assert (seen["value"] is not None) is watched, seen
    return record


def main(arguments: list[str]) -> int:
    """Print the table; 0 when watching costs no more than the reach."""
    found = in_pairs.measured("What the fidelity monitors cost.", arguments, measure)
    return in_pairs.told(found, ("JCT watched", "JCT unwatched"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
