"""PBox in a lab: is GST its lower bound?

    python benchmarks/pbox.py

Four workers and a box of four NICs, with tall and wide aggregation, and four workers with a core beside each. AlexNet's
gradient, a 25th of it, over links of 1.25 Gbit/s divided by as much; keys are an eighth of the thesis's, and a
connection has at most 8 KiB in its host's queue: with 32 KiB and the kernel's own queues a worker's four keys, one for
each NIC, and what waits before them take 0.15 of the bound. Below them are parameter servers of the same bytes. Reached
when every trial is VALID and tall aggregation is within 3 % of its bound.
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

MOST = 1.03
JUDGED = "PBox"
SPEC = """
name: pbox
links: {rate: 1.25 Gbit/s, small_queues: 8 KiB}
workload:
  kind: profile
  model: alexnet
  scale: 25
  batch: 32
  iterations: 5
  compute: {mode: paced}
arms:
  - {label: PBox, topology: "star(hosts=5,server_nics=4,routing=every_nic)", scheme: pbox(key_bytes=4096)}
  - label: wide
    topology: star(hosts=5,server_nics=4,routing=every_nic)
    scheme: pbox(aggregation=wide,key_bytes=4096)
  - {label: PShard, topology: star(hosts=4), scheme: "pbox(colocated=true,key_bytes=4096)"}
  - {label: PS, topology: "star(hosts=5,server_nics=4,routing=every_nic)", scheme: ps(colocated=false)}
  - {label: sharded PS, topology: star(hosts=4), scheme: ps}
repeats: 2
quiet: 0 s
"""


def measure() -> list[dict[str, Any]]:
    """Return the records of all trials."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC, "pbox", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, console)).records


def main() -> int:
    """Print the table; return 0 when every target is reached."""
    records = measure()
    ending.with_failed(records)
    rows, reached = [], []
    for label in dict.fromkeys(record["label"] for record in records):
        own = [record for record in records if record["label"] == label]
        each = (record["metrics"] for record in own)  # gst_ratio leaves out the way back of the largest piece
        ratio = statistics.median(metrics["gst_median_s"] / metrics["gst_theory_s"] for metrics in each)
        gst_s = statistics.median(record["metrics"]["gst_median_s"] for record in own)
        valid = sum(record["fidelity"]["verdict"] == "VALID" for record in own)
        limit = MOST if label == JUDGED else None
        reached.append(valid == len(own) and (limit is None or ratio <= limit))
        verdict = "reached" if reached[-1] else "NOT REACHED"
        asked = "" if limit is None else f"{limit}"
        rows.append([label, f"{gst_s:.3f} s", f"{ratio:.3f}", asked, f"{valid} of {len(own)} VALID", verdict])
    print(columns(("arm", "GST", "GST/bound", "at most", "fidelity", ""), rows))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
