"""Distance of trials from their plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from testbed.analysis.papers import evidence
from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, Statement, Verdict
from testbed.analysis.papers.evidence import Measured, Values, gst_s, measure
from testbed.analysis.papers.judging import true, within
from testbed.analysis.papers.mlfabric.ideals import Asked, play
from testbed.analysis.papers.mlfabric.rounds import WORKERS
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.tables.trial import NEAR, late_shares, overtaken
from testbed.workloads.catalogue import tensor_sizes

PLAN = Experiment(
    "mlfabric/plan.yaml", ("workload.iterations=20",), ("repeats=5", "workload.iterations=40"), evidence.GST
)
PLANNED = "A-30"
SCHEME_BOUND, PACE_S = 30, 0.1
MOST_OVER = 1.10


def plan(runs: Runs) -> Finding:
    """Find how far a trial is from the same scheduler's on an ideal network."""
    run = runs.get(PLAN.spec)
    theory_s = planned_gst_s(run) if run else None
    ours = Row("GST of an update", "s", theory=theory_s, ours=measure(run, [PLANNED], gst_s, number=evidence.GST))

    def over(trial: Trial) -> Values:
        assert theory_s is not None  # there is a trial
        found: Values = gst_s(trial) / theory_s
        return found

    ratio = Row(
        "GST over that on an ideal network", "x", theory=1.0, ours=measure(run, [PLANNED], over, number=evidence.GST)
    )
    late = Row("how late a transfer ends, of the time that it takes", "%", 0.0, ours=_planned(run, _late))
    overtaking = Row("updates and sums that overtake one", "", 0.0, ours=_planned(run, _overtaking))
    near_plan = 100 * NEAR
    return Finding(
        (ratio, ours, late, overtaking),
        (
            within(f"an update takes at most {MOST_OVER:g} of what it does on an ideal network", ratio, high=MOST_OVER),
            within(f"transfers end within {near_plan:g} % of the plan, in the median", late, -near_plan, near_plan),
            _none("no update or sum is there before one that was to be there earlier", overtaking),
        ),
        (
            "Theory is the same scheduler with workers that compute for 0.1 s, on a network where each transfer takes "
            "as long as planned, by discrete events; its number is the median.",
            f"The paper has no number for how well plans are kept: the {near_plan:g} % are ours, and so is the median. "
            "Single transfers are later, because hosts share the machine's cores: a process that waits for one begins "
            "late, or hears late of an end. The row shows all transfers.",
        ),
    )


def _planned(run: Run | None, values: Callable[[Trial], Values]) -> Measured:
    return measure(run, [PLANNED], values, number=evidence.GST, signed=True)


def _late(trial: Trial) -> Values:
    table = trial.transfers
    return np.array([]) if table is None else np.asarray(100 * late_shares(table), np.float64)


def _overtaking(trial: Trial) -> Values:
    return np.array([]) if trial.transfers is None else np.array([float(overtaken(trial.transfers))])


def _none(says: str, row: Row) -> Statement:
    """The row's samples, which are counts of all that happened, are all 0; one of them is enough to tell."""
    samples = row.ours.samples if row.ours else ()
    if not samples:
        return Statement(says, Verdict.UNDECIDED, row.doubt)
    return true(says, max(samples) == 0, f"{max(samples):g} are")


def planned_gst_s(run: Run) -> float:
    """The median time (s) of an update on an ideal network, for the profile, scale and rate of a run of the plan's
    spec."""
    model, scale, rate_bps = run.played or ("", 1.0, 1.0)
    iterations = max((trial.iterations for trial in run.trials), default=0)
    seed = run.resolved.get("seed") or 0
    return _planned_gst_s(model, scale, rate_bps, iterations, int(seed)) if iterations else float("nan")


@cache
def _planned_gst_s(model: str, scale: float, rate_bps: float, iterations: int, seed: int) -> float:
    size_bytes = 4 * round(sum(count for _, count in tensor_sizes(model)) / scale)
    scheme, topology = f"mlfabric_a(delay_bound={SCHEME_BOUND})", f"star(hosts={WORKERS + 2})"
    played = play(Asked(scheme, topology, size_bytes, rate_bps / scale, PACE_S, iterations, seed))
    return float(np.median([update.end_s - update.ready_s for update in played.updates if update.iteration]))
