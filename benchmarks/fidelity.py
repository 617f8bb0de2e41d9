"""Does the verdict tell an overloaded machine from one that keeps up?

    python benchmarks/fidelity.py

BML on BCube(3,2) uses 18 NICs at once. On two cores the machine keeps up with 200 Mbit/s at each and does not with
1 Gbit/s, so the first must come out VALID and the second INVALID. Interleaved, and every repeat must agree. More cores
than two are left unused.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.columns import columns
from testbed.lab.netns import NetnsLab
from testbed.progress import Lines
from testbed.run import Experiment
from testbed.spec import read

REPEATS = 3
CORES = 2
EXPECTED = {"200 Mbit/s": "VALID", "1 Gbit/s": "INVALID"}
SHOWN = ("link rate", "CPU headroom", "run queue")
SPEC = """
name: fidelity
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: 2, iterations: 6, compute: {mode: paced, pace: {2: 0.2 s}}}
arms: [{label: BML, topology: "bcube(n=3,k=2)", scheme: bml}]
"""


def measure(rate: str) -> dict[str, Any]:
    """The record of one trial with links of ``rate``."""
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC, "fidelity", Path(), [f"links.rate={rate}"])
        with Experiment.new(source, Path(folder) / "run", NetnsLab) as experiment:
            return experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records[0]


def row(rate: str, record: Mapping[str, Any]) -> list[str]:
    """Rate, GST over theory, the telling checks, verdict and whether it is the right one."""
    if record["status"] == "failed":
        return [rate, "-", *["-"] * len(SHOWN), "FAILED", EXPECTED[rate], "NOT REACHED"]
    value = {check["name"]: check["value"] for check in record["fidelity"]["checks"]}
    cells = ["-" if value[name] is None else f"{value[name]:.2f}" for name in SHOWN]
    found = record["fidelity"]["verdict"]
    said = "reached" if found == EXPECTED[rate] else "NOT REACHED"
    return [rate, f"{record['metrics']['gst_ratio']:.3f}", *cells, found, EXPECTED[rate], said]


def main() -> int:
    """Print the table; 0 when every verdict is the right one."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    rows = [row(rate, measure(rate)) for _ in range(REPEATS) for rate in EXPECTED]
    print(columns(("18 NICs at", "GST/theory", *SHOWN, "verdict", "expected", ""), rows))
    return 0 if all(cells[-1] == "reached" for cells in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
