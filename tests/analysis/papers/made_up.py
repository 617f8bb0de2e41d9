"""Runs that nobody ran: whatever times a test wants, in the form in which a run directory is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from testbed.analysis.record.metrics import Accuracy, Metrics
from testbed.analysis.record.trial import RecordedCheck
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.verdicts import numbers_of

ITERATIONS, WARMUP, WORLD = 6, 1, 3
NOISE = 0.002
"""Of each time, by a fixed pattern: intervals are narrow, but not empty."""


@dataclass(frozen=True)
class Times:
    """What the iterations of a trial take (s), after a warm-up of ten times that."""

    gst_s: float
    pace_s: float = 0.1


def samples(times: Times, seed: int = 0) -> pd.DataFrame:
    """A row for each (rank, iteration); the last rank ends last."""
    rows, start = [], 0.0
    for iteration in range(ITERATIONS):
        wobble = (10.0 if iteration < WARMUP else 1.0) * (1 + NOISE * np.sin(iteration + seed))
        ready = start + times.pace_s * wobble
        end = ready + times.gst_s * wobble
        rows += [(rank, iteration, start, ready, end - 1e-6 * (WORLD - 1 - rank), end) for rank in range(WORLD)]
        start = end
    names = ["rank", "iteration", "start_s", "ready_s", "sum_s", "end_s"]
    return pd.DataFrame(rows, columns=names).assign(loss=np.nan)


def trial(label: str, batch: int, times: Times, *, repeat: int = 0, verdict: str = "VALID", done: bool = True) -> Trial:
    checks = () if verdict == "VALID" else (RecordedCheck("CPU headroom", False),)
    return Trial(
        id=f"{label}-{batch}-{repeat}",
        label=label,
        topology="star(hosts=3)",
        scheme="ps",
        batch=batch,
        repeat=repeat,
        iterations=ITERATIONS,
        world=WORLD,
        done=done,
        error=None if done else "h0 died\nits log",
        metrics=Metrics(),
        accuracy=Accuracy(),
        verdict=verdict if done else None,
        checks=checks,
        links=(),
        events=(),
        recoveries=(),
        started="",
        duration_s=None,
        samples=samples(times, repeat) if done else None,
        warmup=WARMUP,
        numbers=numbers_of({"verdict": verdict} if done else {}),
    )


def run(trials: Sequence[Trial], *, model: str = "lenet5", scale: float = 5, rate_bps: float = 1e9) -> Run:
    repeats = 1 + max(one.repeat for one in trials)
    workload = {"kind": "profile", "model": model, "scale": scale}
    return Run(
        path=Path("nowhere"),
        name="made-up",
        spec="",
        resolved={"workload": workload, "links": {"rate_bps": rate_bps}, "repeats": repeats},
        environment={},
        labels=tuple(dict.fromkeys(one.label for one in trials)),
        trials=tuple(trials),
    )


def arms(times: Mapping[str, Times], batch: int = 1) -> Run:
    """A run with one trial of each arm."""
    return run([trial(label, batch, one) for label, one in times.items()])
