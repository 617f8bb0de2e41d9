"""GST of PS and ring on star(9) and of BML on BCube(3,2) at 200 Mbit/s, beside theory, and BML over PS.

    python benchmarks/gst.py

LeNet-5's gradient (12.5 MiB) is synchronised; a short pace lets all workers start together, as theory assumes. Arms are
interleaved and repeated, and the median of the repeats' medians is compared with the most loaded link's bytes over its
goodput. Reached when every trial is VALID, each GST is within 5 % of theory, and BML takes 0.50 +- 0.03 of what PS
takes (BML, section 3.2: 2(N-1)/(kN) against 2(N-1)/N).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
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
WITHIN = 0.05
RATIO, RATIO_WITHIN = 0.50, 0.03
SPEC = f"""
name: gst
links: {{rate: 200 Mbit/s}}
workload: {{model: lenet5, dataset: digits, batch: 2, iterations: 6, compute: {{mode: paced, pace: {{2: 0.35 s}}}}}}
arms:
  - {{label: PS, topology: star(hosts=9), scheme: ps}}
  - {{label: ring, topology: star(hosts=9), scheme: ring}}
  - {{label: BML, topology: "bcube(n=3,k=2)", scheme: bml}}
repeats: {REPEATS}
"""


def measure() -> list[dict[str, Any]]:
    """The records of all trials, in the order they ran."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC, "gst", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, console)).records


def row(label: str, records: Sequence[Mapping[str, Any]]) -> tuple[list[str], float, bool]:
    """An arm's cells, its GST (s), and whether it reached the target."""
    gst_s = statistics.median(record["metrics"]["gst_median_s"] for record in records)
    theory_s = records[0]["metrics"]["gst_theory_s"]
    valid = sum(record["fidelity"]["verdict"] == "VALID" for record in records)
    reached = valid == len(records) and abs(gst_s / theory_s - 1) <= WITHIN
    cells = [label, f"{gst_s:.4f} s", f"{theory_s:.4f} s", f"{gst_s / theory_s:.3f}", f"{1 - WITHIN} to {1 + WITHIN}"]
    return [*cells, f"{valid} of {len(records)} VALID", "reached" if reached else "NOT REACHED"], gst_s, reached


def main() -> int:
    """Print the table; 0 when every target is reached."""
    records = measure()
    ending.with_failed(records)
    labels = list(dict.fromkeys(record["label"] for record in records))
    found = {label: row(label, [record for record in records if record["label"] == label]) for label in labels}
    ratio = found["BML"][1] / found["PS"][1]
    close = abs(ratio - RATIO) <= RATIO_WITHIN
    last = ["BML over PS", f"{ratio:.3f}", f"{RATIO:.2f}", f"{ratio / RATIO:.3f}", f"+- {RATIO_WITHIN}", ""]
    rows = [cells for cells, _, _ in found.values()] + [[*last, "reached" if close else "NOT REACHED"]]
    print(columns(("200 Mbit/s", "measured", "theory", "ratio", "target", "fidelity", ""), rows))
    return 0 if close and all(reached for _, _, reached in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
