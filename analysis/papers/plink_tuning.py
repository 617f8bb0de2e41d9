"""PLink's plans in mid-run: they change without a lost step (PHub thesis, section 4.2.3), and Autotune moves masters
away from a host that loses its rate, and back (section 6.2.6, figure 6.15)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, within
from testbed.analysis.papers.evidence import Values, extreme, measure, samples_of
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
    times = samples_of(trial).groupby("iteration").agg({"start_s": "min", "end_s": "max"})
    return int((times["start_s"] < begun).sum()), int((times["end_s"] <= done).sum())


def iterations_s(trial: Trial) -> Values:
    """Return the time (s) of each iteration, the first one included."""
    return np.asarray(metrics.iterations_s(samples_of(trial)), np.float64)


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
    samples = samples_of(trial)
    first = limit(trial)[1]
    sent = samples.filter(like="sent_bytes_").sum(axis=1).groupby(samples["iteration"])
    ratios: Values = (sent.max() / sent.min()).to_numpy(float)[first : first + STEPS * EVERY]
    steps = [ratios[start : start + EVERY] for start in range(0, len(ratios) - EVERY + 1, EVERY)]
    return min(steps, key=lambda step: float(np.median(step)), default=ratios)


SWITCH = Experiment("plink/switch.yaml", (), ("repeats=5",))
LABEL = "switched"
"""Label of the arm of ``switch.yaml``."""
MOST_MS = 50.0
LEAST_PLANS = 5
"""Number of plans that hosts must follow for their switches to say anything."""


def switch(runs: Runs) -> Finding:
    """Check what passed between iterations with a switch, and whether sums and weights are right."""
    run = runs.get(SWITCH.spec)

    def row(name: str, unit: str, values: Callable[[Trial], Values], worst: Callable[..., float] = max) -> Row:
        return Row(name, unit, ours=extreme(measure(run, [LABEL], values), worst))

    longest = row("longest switch", "ms", lambda trial: pauses_ms(trial, switched=True).max(keepdims=True))
    usual = row("the same without a switch", "ms", lambda trial: pauses_ms(trial, switched=False).max(keepdims=True))
    plans = row("plans that hosts followed", "", lambda trial: np.array([_followed(trial)]), min)
    steps = row("steps whose sum was right, of those asked for", "%", steps_right, min)
    weights = row("weights are those of a single process", "%", weights_right, min)
    return Finding(
        (longest, usual, plans, steps, weights),
        (
            within(f"{longest.name}: {MOST_MS:g} ms at most", longest, high=MOST_MS),
            within(f"{plans.name}: {LEAST_PLANS} or more", plans, low=LEAST_PLANS),
            within("no step is lost", steps, low=100.0),
            within("weights are those of a single process", weights, low=100.0),
        ),
        (
            "A switch is what passes between two iterations of a worker if it follows another plan in the second. Each "
            "number is that of the worst worker and trial. A trial fails if a sum, or a weight, is wrong.",
            "Plans are those of Autotune. benchmarks/plan_switch.py tells 200 random ones.",
        ),
    )


def pauses_ms(trial: Trial, *, switched: bool) -> Values:
    """Return the times (ms) from the end of a worker's iteration to the start of its next one, which follows another
    plan, or the same; one 0 if there is none."""
    samples = _in_order(trial)
    by_rank = samples.groupby("rank")
    pause_ms = 1e3 * (samples["start_s"] - by_rank["end_s"].shift())
    kept = pause_ms[(by_rank["plan"].diff().fillna(0) > 0) == switched].dropna()
    return kept.to_numpy(float) if len(kept) else np.zeros(1)


def _followed(trial: Trial) -> float:
    """Return the number of plans after the first that all workers followed."""
    by_plan = _in_order(trial).groupby("plan")["rank"].nunique()
    return float((by_plan == trial.world).sum() - 1)


def steps_right(trial: Trial) -> Values:
    """Return the share (%) of the iterations asked for that all workers did, and whose sums were compared."""
    done = _in_order(trial).groupby("iteration")["rank"].nunique()
    checked = trial.accuracy.checked_sums or 0
    return np.array([100 * min(int((done == trial.world).sum()), checked) / trial.iterations])


def weights_right(trial: Trial) -> Values:
    """Return 100 if all workers ended with the same weights, and these are those of a single process; else 0."""
    told = trial.accuracy
    return np.array([100.0 * (told.weights_equal is True and told.weights_error is not None and not told.apart)])


def _in_order(trial: Trial) -> pd.DataFrame:
    return samples_of(trial).sort_values(["rank", "iteration"])
