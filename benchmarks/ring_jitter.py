"""How long a ring takes against the number of workers and the jitter of each step, beside Rina's equation 3.

    python benchmarks/ring_jitter.py        # about two minutes

Runs ``experiments/rina/chain.yaml`` and fits GST = a N + k + b N sigma sqrt(2 ln N), equation 3's form, to the mean GST
of every trial. Reached when R^2 is at least 0.95, each trial's included. Equation 3 has b = 1 for the scatter-reduce,
thus 2 for both phases, if each round ended with a barrier of all; in this ring a worker waits for its predecessor only,
so b is smaller.
"""

from __future__ import annotations

import math
import sys
import tempfile
from functools import partial
from pathlib import Path

import ending
import numpy as np
import pandas as pd
from rich.console import Console

from testbed.analysis import metrics
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import load
from testbed.trial.model import Trial

SPEC = Path(__file__).parents[1] / "experiments" / "rina" / "chain.yaml"
TARGET = 0.95


def measure() -> list[tuple[Trial, float, str]]:
    """Every trial with its mean GST (s) and its verdict."""
    source = load(SPEC)
    with (
        tempfile.TemporaryDirectory() as folder,
        Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment,
    ):
        run = experiment.go(lambda trials: Lines(trials, Console(stderr=True)))
        ending.with_failed(run.records)
        samples = [pd.read_parquet(experiment.directory.samples(trial.id)) for trial in experiment.planned]
        gst = [float(metrics.gst_s(one, skip=1).mean()) for one in samples]
        verdicts = [record["fidelity"]["verdict"] for record in run.records]
        return list(zip(experiment.planned, gst, verdicts, strict=True))


def sigma_s(trial: Trial) -> float:
    """The jitter of each step."""
    return sum(max(by_host.values()) for by_host in trial.network.jitter)


def main() -> int:
    """Print the table and the fit; 0 when the target is reached."""
    found = measure()
    form = np.array(
        [[t.job.world, 1.0, t.job.world * sigma_s(t) * math.sqrt(2 * math.log(t.job.world))] for t, *_ in found]
    )
    gst = np.array([one for _, one, _ in found])
    weights, *_ = np.linalg.lstsq(form, gst, rcond=None)
    fitted = form @ weights
    r2 = 1 - float(((gst - fitted) ** 2).sum() / ((gst - gst.mean()) ** 2).sum())
    rows = [
        [str(t.job.world), f"{sigma_s(t) * 1e3:g} ms", f"{one * 1e3:.1f} ms", f"{fit * 1e3:.1f} ms", verdict]
        for (t, one, verdict), fit in zip(found, fitted, strict=True)
    ]
    print(columns(("workers", "sigma", "GST", "fit", "verdict"), rows))
    a, k, b = weights
    print(
        f"\nGST = {a * 1e3:.2f} ms N + {k * 1e3:.1f} ms + {b:.2f} N sigma sqrt(2 ln N): R^2 {r2:.4f} ({TARGET} or more)"
    )
    return 0 if r2 >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
