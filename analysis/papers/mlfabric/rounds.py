"""Times of rounds of updates beside a ring's iterations.

A trial of MLfabric-A has as many computed updates as a ring's has gradients; those that are dropped count among them.
So an iteration of either is as many mini-batches, which is what the paper's epochs are made of. Here a round is as many
computed updates as there are workers, and rounds are compared with a ring's iterations. The mean of their times counts,
for some take long by chance: JCT is their sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.analysis import metrics
from testbed.analysis.papers.evidence import Measured, Values, measure_means
from testbed.analysis.recorded import Run, Trial
from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures

ABOUT = 0.3
"""Share by which a speed-up may be off the paper's."""
WORKERS = 30
RING = "ring"


def rounds_s(trial: Trial) -> Values:
    """Compute how long (s) each iteration after the warm-up took; of updates, each round of computed ones."""
    assert trial.samples is not None  # it is VALID, so it has them
    computes_updates = "update" in trial.samples.columns
    found = (UpdatesMeasures() if computes_updates else metrics).iterations_s(trial.samples, trial.warmup)
    return np.asarray(found, np.float64)


def applied_s(trial: Trial) -> Values:
    """Compute how long (s) each iteration after the warm-up took; of updates, each round of those that were applied."""
    assert trial.samples is not None
    return np.asarray(metrics.iterations_s(trial.samples, trial.warmup), np.float64)


def speed_up(run: Run | None, arm: str, ring: str, times: Callable[[Trial], Values] = rounds_s) -> Measured:
    """Measure how many times as fast an arm is as the ring."""
    return measure_means(run, [arm, ring], times)
