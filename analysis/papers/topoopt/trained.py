"""A small DLRM that is trained: the strategy and the network that are found, against data parallelism and a switch."""

from __future__ import annotations

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import measure, speed_up
from testbed.analysis.papers.judging import within

DLRM = Experiment("topoopt/dlrm.yaml", ("workload.iterations=5",), ("repeats=5", "workload.iterations=40"))
FOUND, DATA, SINGLE, IDEAL = "found", "data", "single ring", "star"
AT_LEAST = {DATA: 2.0, SINGLE: 3.0, IDEAL: 0.9}
"""Least time of an arm's iterations over that of the found one's, by arm."""


def trained(runs: Runs) -> Finding:
    """Iteration times of other arms over those of the found one."""
    run = runs.get(DLRM.spec)
    rows = {
        label: Row(f"iteration, {label} over {FOUND}", "x", ours=measure(run, [label, FOUND], speed_up))
        for label in AT_LEAST
    }
    return Finding(
        tuple(rows.values()),
        tuple(
            within(f"{row.name}: at least {AT_LEAST[label]:g}", row, low=AT_LEAST[label]) for label, row in rows.items()
        ),
        ("The model is small enough to be trained on two cores; the paper's DLRM has tables of 20 GB.",),
    )
