"""The cost of sampling queues: JCT with it over JCT without it.

    python benchmarks/queue_cost.py [--pairs N]

While a trial runs, the lab's process reads from the kernel what waits at every egress, up to 50 times a second. Trials
of nine workers that fill 18 links, which keeps two cores busy for a third of the time, run in pairs, with and without,
in an order that alternates. Reach: the median of the ratios at most 1.02.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.lab.netns import NetnsLab
from testbed.spec import read

PAIRS = 10
CORES = 2
REACH = 1.02
SPEC = """
name: queues
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 200, batch: 32, iterations: 30, compute: none}
arms: [{topology: "bcube(n=3,k=2)", scheme: bml}]
retries: 0
quiet: 0 s
"""


def measure(sampled: bool) -> dict[str, Any]:
    """The record of one trial."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as changes:
        if not sampled:
            changes.enter_context(mock.patch.object(NetnsLab, "watch_queues", return_value=False))
        source = read(SPEC, "queues", Path())
        with Experiment.new(source, Path(folder) / "run", NetnsLab) as experiment:
            record = experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records[0]
    ending.with_failed([record])
    assert (record["queues"] is not None) is sampled, record["queues"]
    return record


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 when sampling costs no more than the reach."""
    parser = argparse.ArgumentParser(description="What sampling queues costs.")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    pairs = parser.parse_args(arguments).pairs
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for pair in range(pairs):
        for sampled in (True, False) if pair % 2 else (False, True):
            found[sampled].append(measure(sampled))
    jct_s = {sampled: [one["metrics"]["jct_s"] for one in records] for sampled, records in found.items()}
    ratios = [with_s / without_s for with_s, without_s in zip(jct_s[True], jct_s[False], strict=True)]
    ratio = statistics.median(ratios)
    each_s = statistics.median(one["queues"]["cost_s"] / one["queues"]["readings"] for one in found[True])
    medians = (f"{statistics.median(jct_s[sampled]):.3f} s" for sampled in (True, False))
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    said = "reached" if ratio <= REACH else "NOT REACHED"
    heads = ("pairs", "JCT sampled", "JCT without", "CPU a reading", "ratio, median", "all ratios", f"reach: {REACH}")
    print(columns(heads, [(str(pairs), *medians, f"{1e3 * each_s:.3f} ms", f"{ratio:.4f}", spread, said)]))
    return 0 if ratio <= REACH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
