"""An aggregator in a switch's namespace: does it keep 4 ports of 200 Mbit/s full on one core?

    python benchmarks/aggregator.py

SwitchML on star(4) whose switch adds: every port carries the whole gradient in and the sum out at once, so at full rate
the aggregator takes in 4 x 200 Mbit/s and sends as much. LeNet-5's gradient, chunks of 32 KiB. Reached when every trial
is VALID, GST is within 5 % of what full ports allow, and the aggregator's process took less than one core meanwhile.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

REPEATS = 3
RATES = ("100 Mbit/s", "200 Mbit/s")
MOST = 1.05
SPEC = """
name: aggregator
links: {{rate: {rate}}}
workload:
  model: lenet5
  dataset: digits
  batch: 2
  iterations: 8
  chunk: 32 KiB
  compute: {{mode: paced, pace: {{2: 0.2 s}}}}
arms:
  - {{topology: "star(hosts=4,ina=all)", scheme: switchml}}
repeats: {repeats}
"""


def measure(rate: str) -> list[dict[str, Any]]:
    """The records of the trials at one rate."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC.format(rate=rate, repeats=REPEATS), "aggregator", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, console)).records


def main() -> int:
    """Print the table; 0 when every target is reached."""
    rows, reached = [], []
    for rate in RATES:
        records = measure(rate)
        ending.with_failed(records)
        ratio = statistics.median(record["metrics"]["gst_ratio"] for record in records)
        checks = [{check["name"]: check for check in record["fidelity"]["checks"]} for record in records]
        core = statistics.median(check["aggregators"]["value"] for check in checks)
        valid = sum(record["fidelity"]["verdict"] == "VALID" for record in records)
        reached.append(valid == len(records) and ratio <= MOST and core < 1)
        verdict = "reached" if reached[-1] else "NOT REACHED"
        rows.append([rate, f"{ratio:.3f}", f"{MOST}", f"{core:.2f}", "1", f"{valid} of {len(records)} VALID", verdict])
    print(columns(("4 ports at", "GST/bound", "at most", "cores", "below", "fidelity", ""), rows))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
