"""Times of rounds of updates beside a ring's iterations, and until two trainings are equally good.

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


ITERATIONS, TIME = 0, 1
LEVELS = 5
"""From half of the way to the best that both reached."""


def reached_over(at: int, least: float, first: Trial, second: Trial) -> Values:
    """Compute, at each level, :data:`ITERATIONS` or :data:`TIME` of the second trial over the first one's; nothing if
    one has not reached the least quality that is worth comparing, or if it is not known."""
    curves = [_curve(trial) for trial in (first, second)]
    if not all(quality.max(initial=-np.inf) > least for *_, quality in curves):
        return np.array([])
    best = min(quality.max() for *_, quality in curves)
    worst = max(quality[0] for *_, quality in curves)
    levels = np.linspace((worst + best) / 2, best, LEVELS)
    ours, others = ([_reached(curve[at], curve[2], level) for level in levels] for curve in reversed(curves))
    found: Values = np.array(ours) / np.array(others)
    return found


def _curve(trial: Trial) -> tuple[Values, Values, Values]:
    """Iterations that were computed, time (s) and quality, after each iteration that was tested. Of updates,
    quality is found after rounds of applied ones; those that were dropped meanwhile were computed, too."""
    assert trial.samples is not None
    samples = trial.samples
    ends_s = metrics.ends_s(samples)
    done = metrics.mini_batches(samples)
    curve = [(int(at), value) for at, value in trial.accuracy.own_curve or []]
    known = [(float(done.loc[at]), float(ends_s.loc[at]), value) for at, value in curve]
    iterations, times_s, quality = np.array(known, np.float64).reshape(-1, 3).T
    return iterations, times_s, quality


def _reached(moments: Values, quality: Values, level: float) -> float:
    """Return the moment at which a curve is first at a level, which it reaches; between two of its points, on the line
    between them."""
    after = int(np.argmax(quality >= level))
    if after == 0:
        return float(moments[0])
    before = quality[after - 1]
    share = (level - before) / (quality[after] - before)
    return float(moments[after - 1] + share * (moments[after] - moments[after - 1]))
