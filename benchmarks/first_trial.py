"""Whether the first trial in a fresh lab is slower than those after it, so that it would have to be left out.

    python benchmarks/first_trial.py [--labs N] [--trials N]

Each lab runs the same trial several times. Printed are GST, JCT and the time around training (building, starting,
probing, checking) by place in the lab, and the first's over the median of the later ones in the same lab, with its
interval. Iterations of warm-up are left out of GST as in every run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import ending
import numpy as np
from rich.console import Console

from testbed.analysis.numbers.statistics import median
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.spec import read

SPEC = """\
name: first
links: {rate: 1 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: 8, iterations: 8, compute: none}
arms: [{topology: star(hosts=4), scheme: ring}]
retries: 0
quiet: 0 s
"""
LABS, TRIALS = 6, 4
MEASURES = ("GST", "JCT", "around it")


def measure(trials: int) -> list[dict[str, Any]]:
    """The records of one fresh lab, in the order in which they ran."""
    source = read(SPEC, "first", Path(), [f"repeats={trials}"])
    with tempfile.TemporaryDirectory() as folder, Experiment.new(source, Path(folder) / "run") as experiment:
        return experiment.go(lambda left: Lines(left, Console(stderr=True, quiet=True))).records


def seconds(record: dict[str, Any]) -> tuple[float, float, float]:
    """As :data:`MEASURES`."""
    jct_s = float(record["metrics"]["jct_s"])
    return float(record["metrics"]["gst_median_s"]), jct_s, record["duration_s"] - jct_s


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--labs", type=int, default=LABS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    asked = parser.parse_args()
    found = []
    for _ in range(asked.labs):
        records = measure(asked.trials)
        ending.with_failed(records)
        found.append([seconds(record) for record in records])
    times = np.array(found)  # [lab, place, measure]
    rows = []
    for i, name in enumerate(MEASURES):
        ratios = times[:, 0, i] / np.median(times[:, 1:, i], axis=1)
        over = median(ratios)
        by_place = [f"{1e3 * value:.1f} ms" for value in np.median(times[:, :, i], axis=0)]
        rows.append((name, *by_place, f"{over.value:.3f} ({over.low:.3f} to {over.high:.3f})"))
    print(f"medians of {asked.labs} fresh labs, by place in the lab")
    print(columns(("", *(f"trial {i + 1}" for i in range(asked.trials)), "first over later"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
