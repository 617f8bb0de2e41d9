"""The checks that a kind of trial brings along."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.base.check import Check
from testbed.fidelity.seen import Seen
from testbed.workloads.kinds.base import Expected


def checks(seen: Seen) -> Iterable[Check]:
    if seen.samples is None and seen.told.failed is None:
        return ()
    job = seen.job
    if (own := job.kind.own_checks) is None:
        return ()
    goodput, pace_s = seen.trial.network.goodput, 0.0 if seen.samples is None else job.compute.pace_s
    expected = Expected(job.iterations, job.cost, job.gst_theory_s, goodput, pace_s)
    return own.judge(job.plan, seen.told, expected)
