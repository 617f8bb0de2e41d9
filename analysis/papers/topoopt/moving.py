"""Circuits that move: within iterations (figure 15), and for the next job, with look-ahead and without (figure 10)."""

from __future__ import annotations

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, within
from testbed.analysis.papers.evidence import Values, measure, speed_up
from testbed.analysis.recorded import Trial

RECONFIGURED = Experiment("topoopt/figure15.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=12"))
ONESHOT = "oneshot"
DARK_MS = (10, 30, 100)
"""Ten times the paper's."""
BY_FAR = 3.0
"""Ratio that is taken for "by far" at the longest. The figure's values are lost, so no row has the paper's."""


def arm(dark_ms: int) -> str:
    """The label of an arm of ``figure15.yaml``."""
    return f"dark {dark_ms} ms"


def reconfigured(runs: Runs) -> Finding:
    """Iteration times over that of circuits that stay."""
    run = runs.get(RECONFIGURED.spec)
    rows = [
        Row(f"iteration, {arm(dark_ms)} over {ONESHOT}", "x", ours=measure(run, [arm(dark_ms), ONESHOT], speed_up))
        for dark_ms in DARK_MS
    ]
    return Finding(
        tuple(rows),
        (
            *(within(f"{row.name}: moving circuits does not pay", row, low=1.0) for row in rows[:-1]),
            within(f"{rows[-1].name}: at least {BY_FAR:g}", rows[-1], low=BY_FAR),
        ),
        (
            'That moving circuits pays "when the reconfiguration latency is lower than 1 us" is for a '
            "simulation: processes cannot stop and go on so fast.",
            "Processes hold before circuits are dark, and TCP has to deliver what is on its way: 5 to 15 ms a move, "
            "which the paper's simulation does not have.",
        ),
    )


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
