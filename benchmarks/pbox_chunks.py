"""Size of a box's keys where processors, and not links, set the times (PHub thesis, section 6.1.6, figure 6.7 left).

    python benchmarks/pbox_chunks.py

Two workers and a box of two NICs synchronise ResNet-50's whole gradient with keys of 4 KiB to 4 MiB. Links have
34 Gbit/s, the most that can be shaped. No core of a small machine fills them, so all trials are INVALID: this is about
the processor alone. Small keys cost it a message each; large ones leave it waiting, as no key goes back before all of
it has come. Reached if the best size is neither the smallest nor the largest, and both of these take at least 10 %
longer.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

KIB = (4, 16, 32, 64, 256, 1024, 4096)
LEAST = 1.1
SPEC = """
name: pbox-chunks
links: {rate: 34 Gbit/s}
workload: {kind: profile, model: resnet50, batch: 32, iterations: 6, compute: none}
arms:
  - topology: "star(hosts=3,server_nics=2,routing=every_nic)"
    scheme: [SCHEMES]
repeats: 3
quiet: 0 s
retries: 0
"""


def measure() -> dict[int, float]:
    """Return the median GST (s) by the size of keys (KiB)."""
    console, schemes = Console(stderr=True), ", ".join(f'"pbox(key_bytes={kib * 1024})"' for kib in KIB)
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC.replace("SCHEMES", schemes), "pbox_chunks", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            records = experiment.go(lambda trials: Lines(trials, console)).records
    ending.with_failed(records)
    return {
        kib: statistics.median(
            record["metrics"]["gst_median_s"]
            for record in records
            if record["scheme"] == f"pbox(key_bytes={kib * 1024})"
        )
        for kib in KIB
    }


def main() -> int:
    """Print the table; return 0 when the target is reached."""
    found_s = measure()
    best_s = min(found_s.values())
    rows = [(f"{kib:,} KiB", f"{gst_s:.3f} s", f"{gst_s / best_s:.2f}") for kib, gst_s in found_s.items()]
    print(columns(("keys", "GST", "over the best"), rows))
    reached = min(found_s[KIB[0]], found_s[KIB[-1]]) >= LEAST * best_s
    print(f"both ends at least {LEAST:g} of the best: {'reached' if reached else 'NOT REACHED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
