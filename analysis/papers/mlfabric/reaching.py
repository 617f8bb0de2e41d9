"""Iterations and time until two trainings are equally good, by accuracy or likelihood."""

from __future__ import annotations

import numpy as np

from testbed.analysis import metrics
from testbed.analysis.papers.evidence import Values
from testbed.analysis.recorded import Trial

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
