"""The checks that a kind of trial brings along."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.base.check import Check
from testbed.fidelity.seen import Seen
from testbed.workloads.kinds.base import Evidence


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None and seen.failed is None:
        return
    evidence = Evidence(
        plan=seen.job.plan,
        samples=pd.DataFrame() if seen.samples is None else seen.samples,
        iterations=seen.job.iterations,
        cost=seen.job.cost,
        least_gst_s=seen.job.gst_theory_s,
        goodput=seen.trial.network.goodput,
        pace_s=seen.job.compute.pace_s,
        failed=seen.failed,
    )
    yield from seen.job.kind.judge(evidence)
