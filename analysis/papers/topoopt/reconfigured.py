"""Figure 15: what it costs to move circuits within iterations, by how long moving circuits are dark."""

from __future__ import annotations

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import measure, speed_up
from testbed.analysis.papers.judging import within

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
            'That moving circuits pays "when the reconfiguration latency is lower than 1 us" is for the flow-level '
            "simulator: processes cannot stop and go on so fast.",
            "Processes hold before circuits are dark, and TCP has to deliver what is on its way: 5 to 15 ms a move, "
            "which the paper's simulator does not have.",
        ),
    )
