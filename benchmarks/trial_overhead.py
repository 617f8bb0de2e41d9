"""What a trial of a sweep takes beside its training.

    python benchmarks/trial_overhead.py

Fifteen short trials of a profile on star(hosts=4), of five schemes, in one lab. The figure is the time of the whole
sweep, less all JCTs, over the number of trials: network up, links measured, processes started, results read, judged and
written, network down. The sweep's own beginning and end are in it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import ending
from rich.console import Console

from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

TARGET_S = 1.0
SPEC = """
name: trial-overhead
links: {rate: 200 Mbit/s}
retries: 0
workload:
  {kind: profile, model: lenet5, batch: [2, 4, 8], scale: 4, iterations: 4,
    compute: {mode: paced, pace: {2: 0.05 s, 4: 0.06 s, 8: 0.07 s}}}
arms: [{topology: star(hosts=4), scheme: [ring, ps, ps(servers=1), halving_doubling, double_binary_tree]}]
"""


def main() -> int:
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.monotonic()
        with Experiment.new(
            read(SPEC, "trial_overhead", Path()), Path(folder) / "run", partial(Here, NetnsLab)
        ) as experiment:
            records = experiment.go(lambda trials: Lines(trials, console)).records
        took_s = time.monotonic() - begun_s
    ending.with_failed(records)
    beside_s = (took_s - sum(record["metrics"]["jct_s"] for record in records)) / len(records)
    reached = beside_s <= TARGET_S
    print(f"{len(records)} trials in {took_s:.1f} s: {beside_s:.2f} s each beside training (at most {TARGET_S} s)")
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
