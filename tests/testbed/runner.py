"""A run whose trials take no time: the lab is in memory, and what each trial measured is made up.

For tests of what goes on around trials: order, resuming, repeating until it is enough, parts and merging.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from testbed.execution.execute import Outcome, blank_trial
from testbed.experiment import run, runner
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.trial.model import Trial

from .fake_lab import FakeLab

Measure = Callable[[Trial], float]
"""The median GST (s) that a trial is to have measured; NaN for one that fails, below 0 for one that is INVALID, and
:class:`Disturbed` for one that is so only because of the machine."""


class Disturbed(float):
    """A GST (s) that was measured while the host took the cores away."""


STEAL = {
    **{"name": "CPU steal", "value": 0.2, "limit": 0.05, "unit": "stolen", "ok": False, "detail": "20.0% taken"},
    "machine": True,
}


def outcome(trial: Trial, gst_s: float) -> Outcome:
    """As :func:`testbed.execution.execute.execute` gives it, with a table of two iterations of every worker."""
    record = blank_trial(trial) | {"started": f"{time.time():.6f}", "duration_s": 0.01}
    if gst_s != gst_s:
        return Outcome(record | {"error": "made up to fail"}, None, {})
    checks = [STEAL] if isinstance(gst_s, Disturbed) else []
    verdict, gst_s = ("VALID", gst_s) if gst_s > 0 and not checks else ("INVALID", abs(gst_s))
    metrics = {
        "gst_median_s": gst_s,
        "gst_theory_s": 1.0,
        "gst_ratio": gst_s,
        "jct_s": 2 * gst_s,
        "throughput_sps": 1.0,
    }
    rows = [(rank, i) for rank in range(trial.job.world) for i in range(2)]
    samples = pd.DataFrame(rows, columns=["rank", "iteration"]).assign(loss=1.0)
    samples = samples.assign(start_s=samples["iteration"] * gst_s, ready_s=samples["iteration"] * gst_s)
    samples = samples.assign(sum_s=samples["start_s"] + gst_s, end_s=samples["start_s"] + gst_s)
    done = {"status": "done", "metrics": metrics, "loss": [1.0, 1.0]}
    fidelity = {"verdict": verdict, "checks": checks}
    return Outcome(record | done | {"fidelity": fidelity}, samples, {"made": "up"})


class Ran:
    """Trials in the order in which they ran, whoever ran them."""

    def __init__(self, measure: Measure, stop_after: int | None = None) -> None:
        self.ids: list[str] = []
        self._measure, self._stop_after = measure, stop_after

    def execute(self, trial: Trial, *_: Any) -> Outcome:
        if self._stop_after is not None and len(self.ids) >= self._stop_after:
            raise KeyboardInterrupt
        self.ids.append(trial.id)
        return outcome(trial, self._measure(trial))


def in_memory() -> runner.Here:
    """Trials here, in a lab that has nothing but its memory."""
    return runner.Here(FakeLab)


def go(experiment: Experiment) -> run.Run:
    """Run it, and close it."""
    with experiment:
        return experiment.go(lambda left: Lines(left, Console(stderr=True, quiet=True)))


def main() -> None:
    """``python -m tests.testbed.runner SPEC OUT`` runs slowly enough to be killed in the middle."""
    from testbed.spec import load

    def execute(trial: Trial, *_: Any) -> Outcome:
        time.sleep(0.05)
        return outcome(trial, 1.0)

    vars(runner)["execute"] = execute
    go(Experiment.new(load(Path(sys.argv[1])), Path(sys.argv[2]), in_memory))
    os._exit(0)


if __name__ == "__main__":
    main()
