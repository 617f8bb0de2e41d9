"""PLink's Autotune (PHub thesis, section 6.2.6, figure 6.15): a host loses its rate, masters move away, and back."""

from __future__ import annotations

import numpy as np

from testbed.analysis import metrics
from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import Values, measure
from testbed.analysis.papers.judging import within
from testbed.analysis.recorded import Trial

AUTOTUNE = Experiment(
    "plink/autotune.yaml",
    ("workload.iterations=120", "perturb.0.until=iteration 60"),
    (),
)
PLAIN, TUNED = "not tuned", "tuned"
"""Labels of the arms of ``autotune.yaml``."""
FREE_S, LIMITED_S, TUNED_S = 0.46, 0.91, 0.59
"""Times of an iteration by theory: at full rates; with a host at 2 of 5 Gbit/s; and with that host as no master."""
LEAST_GAIN, THESIS_GAIN = 1.45, 1.27
MOST_RATIO = 1.05
STEPS, EVERY = 14, 10
"""Steps of Autotune after the limit by which loads are to be even, and iterations of each."""
LAST = 10
"""Iterations at the end of the limit that count as tuned."""


def autotune(runs: Runs) -> Finding:
    """Times of iterations before and while a host is limited, and how even loads are afterwards."""
    run = runs.get(AUTOTUNE.spec)
    free = Row("iteration before the limit", "s", theory=FREE_S, ours=measure(run, [PLAIN], free_s))
    limited = Row("iteration at the limit, not tuned", "s", theory=LIMITED_S, ours=measure(run, [PLAIN], limited_s))
    tuned = Row("iteration at the limit, tuned", "s", theory=TUNED_S, ours=measure(run, [TUNED], limited_s))
    gain = Row(
        "not tuned over tuned, at the limit",
        "x",
        THESIS_GAIN,
        LIMITED_S / TUNED_S,
        measure(run, [PLAIN, TUNED], lambda plain, tuned: limited_s(plain) / limited_s(tuned)),
    )
    even = Row(
        "most bytes of a host over the least, after the limit", "x", MOST_RATIO, 1.0, measure(run, [TUNED], load)
    )
    return Finding(
        (gain, free, limited, tuned, even),
        (
            within(f"{gain.name}: at least {LEAST_GAIN:g}", gain, low=LEAST_GAIN),
            within(f"{even.name}: below {MOST_RATIO:g} within {STEPS} steps", even, high=MOST_RATIO),
        ),
        (
            f"At the limit means its last {LAST} iterations. Loads are those of the step with the most even ones, of "
            f"the {STEPS} after the limit, or of as many as a shorter trial has. Later steps may move a master again, "
            "and back, if times differ by more than 5 %.",
            "By theory no packet waits. With the kernel's own queues each master hands its link 75 ms of packets at "
            "the beginning of a synchronisation, and the first sums for the limited host wait behind them: 1.37 times. "
            "So the spec has small_queues.",
        ),
    )


def limit(trial: Trial) -> tuple[int, int]:
    """Return the first iteration that began under the limit, and the first that ended after it."""
    begun, done = (event.done_s for event in trial.events if event.rates_bps)
    assert trial.samples is not None  # it is VALID, so it has them
    times = trial.samples.groupby("iteration").agg({"start_s": "min", "end_s": "max"})
    return int((times["start_s"] < begun).sum()), int((times["end_s"] <= done).sum())


def iterations_s(trial: Trial) -> Values:
    """Return the time (s) of each iteration, the first one included."""
    assert trial.samples is not None
    return np.asarray(metrics.iterations_s(trial.samples), np.float64)


def free_s(trial: Trial) -> Values:
    """Return the times of iterations before the limit, but for the warm-up."""
    return iterations_s(trial)[trial.warmup : limit(trial)[0]]


def limited_s(trial: Trial) -> Values:
    """Return the times of the last iterations under the limit."""
    first, stop = limit(trial)
    return iterations_s(trial)[max(first, stop - LAST) : stop][-LAST:]


def load(trial: Trial) -> Values:
    """Compute, for the most even step of those that count after the limit, the most bytes that a host sent in an
    iteration over the least."""
    assert trial.samples is not None
    first = limit(trial)[1]
    sent = trial.samples.filter(like="sent_bytes_").sum(axis=1).groupby(trial.samples["iteration"])
    ratios: Values = (sent.max() / sent.min()).to_numpy(float)[first : first + STEPS * EVERY]
    steps = [ratios[start : start + EVERY] for start in range(0, len(ratios) - EVERY + 1, EVERY)]
    return min(steps, key=lambda step: float(np.median(step)), default=ratios)
