"""Figure 10: for how long servers wait for the circuits of their next job, with look-ahead and without."""

from __future__ import annotations

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import Values, measure
from testbed.analysis.papers.judging import within
from testbed.analysis.recorded import Trial

LOOK_AHEAD = Experiment("topoopt/look_ahead.yaml", ("repeats=3", "workload.iterations=3"), ("repeats=5",))
"""A trial has one such wait, and fewer than three would have no interval to speak of. Three iterations of the first job
take longer than patching does."""
SECOND = {arm: f"{arm}: second" for arm in ("look-ahead", "one panel")}
"""Label of the job that waits for its circuits, by arm."""
RECONFIGURATION_S = 3.0
"""Seconds that patching takes in ``look_ahead.yaml``."""
AT_MOST_S = 0.05
"""Seconds that are taken for "immediately"."""
ABOUT = 0.05


def look_ahead(runs: Runs) -> Finding:
    """Find how long the second job's hosts were dark."""
    run = runs.get(LOOK_AHEAD.spec)
    ahead, alone = (
        Row(
            f"servers dark before the second job, {arm}",
            "s",
            theory=theory_s,
            ours=measure(run, [SECOND[arm]], _dark_s),
        )
        for arm, theory_s in zip(SECOND, (None, RECONFIGURATION_S), strict=True)
    )
    return Finding(
        (ahead, alone),
        (
            within(f"{ahead.name}: at most {1e3 * AT_MOST_S:g} ms", ahead, high=AT_MOST_S),
            within(
                f"{alone.name}: as long as patching takes, within {ABOUT:.0%}",
                alone,
                (1 - ABOUT) * RECONFIGURATION_S,
                (1 + ABOUT) * RECONFIGURATION_S,
            ),
        ),
        (
            "Dark is from when the first job's processes have ended until the second job's circuits carry light. "
            "Starting its processes takes longer, but as long with look-ahead as without.",
            "The kernel moves links here; how long a mechanical 1x2 switch takes is not measured.",
        ),
    )


def _dark_s(trial: Trial) -> Values:
    dark_s = None if trial.slot is None else trial.slot.dark_s
    return np.array([np.nan if dark_s is None else dark_s])
