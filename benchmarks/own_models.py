"""Weights of a ResNet-18 of one's own, trained on CIFAR-10 files by 4 workers, against single-process SGD.

    python benchmarks/own_models.py

The model is experiments/own/net.py. The files have the form of cifar-10-batches-bin, and seeded images: a pattern for
each class, and noise. A built-in model, ResNet-8 on digits, is trained the same way in the same run, each along a ring
and by a parameter server, for one iteration and for four. Reached when every trial's weights are as near to those of
single-process SGD as rounding explains, as for every trial that testbed calls done. After one iteration only the order
of sums differs. Later, rounding also decides whether units near zero pass, and ResNet-18 has half a million of them for
each image: sums that are off by 2e-7 led 4e-3 away, and 8e-6 where SiLU took the place of ReLU.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ending
import numpy as np
from rich.console import Console

from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

FOLDER = Path(__file__).parents[1] / "experiments" / "own"
IMAGES = 64
"""In each of the five training files, and in the test's."""
SPEC = """
name: own
links: {{rate: 1 Gbit/s}}
workload: {{model: "{model}", dataset: "{dataset}", batch: 4, iterations: [1, 4], warmup: 0, learning_rate: 0.001}}
arms:
  - {{label: ring, topology: star(hosts=4), scheme: ring}}
  - {{label: PS, topology: star(hosts=4), scheme: ps}}
retries: 0
quiet: 0 s
timeout: 300 s
start_timeout: 300 s
"""


def write_files(folder: Path) -> None:
    """CIFAR-10's binary version: rows of a label and 3 x 32 x 32 pixels."""
    random = np.random.default_rng(1)
    patterns = random.integers(0, 128, (10, 3 * 32 * 32))
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        labels = random.integers(0, 10, IMAGES)
        pixels = patterns[labels] + random.integers(0, 128, (IMAGES, 3 * 32 * 32))
        rows = np.concatenate([labels[:, None], pixels], axis=1).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())


def measure(model: str, dataset: str, out: Path) -> list[dict[str, Any]]:
    """The records of a model's trials."""
    console = Console(stderr=True)
    source = read(SPEC.format(model=model, dataset=dataset), "own", FOLDER)
    with Experiment.new(source, out, partial(Here, NetnsLab)) as experiment:
        return experiment.go(lambda trials: Lines(trials, console)).records


def row(record: Mapping[str, Any]) -> tuple[str, ...]:
    """A trial's cells."""
    found = record["accuracy"]
    reached = found["weights_equal"] and found["training_error"] <= found["training_allowed"]
    return (
        record["model"],
        record["label"],
        f"{record['iterations']}",
        f"{found['weights_error']:.1e}",
        f"{found['training_error']:.1e}",
        f"{found['training_allowed']:.1e}",
        f"{record['sums']['sums_error']:.1e}",
        "reached" if reached else "NOT REACHED",
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        models = {"resnet8": "digits", "./net.py:ResNet18": f"cifar10(path={folder})"}
        runs = [measure(model, dataset, Path(folder) / f"run{i}") for i, (model, dataset) in enumerate(models.items())]
    records = [record for run in runs for record in run]
    ending.with_failed(records)
    header = ("model", "scheme", "iterations", "weights differ", "of the change", "allowed", "sums differ", "")
    rows = [row(record) for record in records]
    print(columns(header, rows, left=2))
    return 0 if all(cells[-1] == "reached" for cells in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
