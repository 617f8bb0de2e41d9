"""The effect of overlap, fusion buckets and priority: JCT of VGG-19 played back, for each iteration, beside its bounds.

    python benchmarks/overlap.py

Without overlap an iteration takes computing and synchronisation one after the other; with all of it, no less than the
longer of the two. VGG-19's first fully connected layer, 72 % of the bytes, is ready early in the backward pass and
needed late in the next forward pass: sent in order, it keeps the convolutions waiting, which are needed first. Settings
are interleaved, and the medians of the repeats compared. Reached when each pair below is in its order and every trial
is VALID.
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
from testbed.spec import load

SPEC = Path(__file__).parents[1] / "experiments" / "profiles" / "vgg19.yaml"
REPEATS = 3
SETTINGS: dict[str, tuple[str, ...]] = {
    "no overlap": ("overlap=none",),
    "backward": ("overlap=layer",),
    "backward, 25 MB buckets": ("overlap=layer", "bucket_bytes=25 MB"),
    "both": ("overlap=both",),
    "both, priority": ("overlap=both", "priority=layer"),
    "both, 25 MB buckets": ("overlap=both", "bucket_bytes=25 MB"),
    "both, 25 MB buckets, priority": ("overlap=both", "bucket_bytes=25 MB", "priority=layer"),
}
FASTER = (("backward", "no overlap"), ("both, priority", "both"), ("both, priority", "backward"))
"""The first of each pair is to take less time than the second."""


def measure(settings: Sequence[str]) -> Mapping[str, Any]:
    """The record of one trial of PS."""
    only = ["arms=[{label: PS, topology: star(hosts=4), scheme: ps}]"]
    source = load(SPEC, [*only, *(f"workload.{setting}" for setting in settings)])
    with (
        tempfile.TemporaryDirectory() as folder,
        Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment,
    ):
        (record,) = experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records
    return record


def main() -> int:
    """Print the table; 0 when the target is reached."""
    records: dict[str, list[Mapping[str, Any]]] = {name: [] for name in SETTINGS}
    for _ in range(REPEATS):
        for name, settings in SETTINGS.items():
            records[name].append(measure(settings))
    ending.with_failed(record for each in records.values() for record in each)
    time_s = {name: statistics.median(_iteration_s(record) for record in each) for name, each in records.items()}
    valid = {name: sum(one["fidelity"]["verdict"] == "VALID" for one in each) for name, each in records.items()}
    rows = [
        [name, f"{seconds:.3f} s", f"{seconds / time_s['no overlap']:.2f}", f"{valid[name]} of {REPEATS} VALID"]
        for name, seconds in time_s.items()
    ]
    print(columns(("VGG-19, 4 workers, 20 Gbit/s, PS", "an iteration", "of the first", "fidelity"), rows))
    reached = all(time_s[fast] < time_s[slow] for fast, slow in FASTER) and min(valid.values()) == REPEATS
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


def _iteration_s(record: Mapping[str, Any]) -> float:
    return float(record["metrics"]["jct_s"]) / int(record["iterations"])


if __name__ == "__main__":
    sys.exit(main())
