"""Plans that change in mid-run (PHub thesis, section 4.2.3): no step is lost, weights are right, switches are short."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import Values, extreme, measure
from testbed.analysis.papers.judging import within
from testbed.analysis.recorded import Trial

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
    assert trial.samples is not None  # it is VALID, so it has them
    return trial.samples.sort_values(["rank", "iteration"])
