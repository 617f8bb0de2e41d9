"""The cost of monitoring: JCT with the monitors over JCT without them.

    python benchmarks/monitoring_cost.py [--pairs N]

What runs while a trial does is the harness's reading of /proc/stat, its reading of links' rates at random times and, in
each worker, the thread that samples how late timers are. Trials of nine workers that fill 18 links, which keeps two
cores busy for a third of the time, run in pairs, with and without, in an order that alternates. Reach: the median of
the ratios at most 1.02.

What each iteration reads of clocks, CPU time and run-queue wait is in both, a few microseconds. Calibration and reading
back come before and after.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.evidence import spot_checks
from testbed.execution import job_files
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.lab.netns import NetnsLab
from testbed.machine import monitor
from testbed.spec import read
from workloads.job import WorkerJob

PAIRS = 10
CORES = 2
REACH = 1.02
NEVER_S = 3600.0
SPEC = """
name: monitoring
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 200, batch: 32, iterations: 30, compute: none}
arms: [{topology: "bcube(n=3,k=2)", scheme: bml}]
retries: 0
quiet: 0 s
"""


def measure(watched: bool) -> dict[str, Any]:
    """The record of one trial."""
    written = job_files.worker_jobs

    def unwatched(*arguments: Any) -> Iterator[WorkerJob]:
        yield from (replace(job, watched=False) for job in written(*arguments))

    with tempfile.TemporaryDirectory() as folder, ExitStack() as changes:
        if not watched:
            changes.enter_context(mock.patch.object(job_files, "worker_jobs", unwatched))
            changes.enter_context(mock.patch.object(monitor, "PERIOD_S", NEVER_S))
            changes.enter_context(mock.patch.object(spot_checks, "mean_s", return_value=NEVER_S))
        source = read(SPEC, "monitoring", Path())
        with Experiment.new(source, Path(folder) / "run", NetnsLab) as experiment:
            record = experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records[0]
    ending.with_failed([record])
    seen = next(check for check in record["fidelity"]["checks"] if check["name"] == "timers")
    assert (seen["value"] is not None) is watched, seen
    return record


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 when watching costs no more than the reach."""
    parser = argparse.ArgumentParser(description="What the fidelity monitors cost.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    pairs = parser.parse_args(arguments).pairs
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    jct_s: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for watched in (True, False) if pair % 2 else (False, True):
            jct_s[watched].append(measure(watched)["metrics"]["jct_s"])
    ratios = [with_s / without_s for with_s, without_s in zip(jct_s[True], jct_s[False], strict=True)]
    ratio = statistics.median(ratios)
    medians = (f"{statistics.median(jct_s[watched]):.3f} s" for watched in (True, False))
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    said = "reached" if ratio <= REACH else "NOT REACHED"
    print(
        columns(
            ("pairs", "JCT watched", "JCT unwatched", "ratio, median", "all ratios", f"reach: {REACH}"),
            [(str(pairs), *medians, f"{ratio:.4f}", spread, said)],
        )
    )
    return 0 if ratio <= REACH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
