"""The checks that a kind of trial brings along."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.base.check import Check
from testbed.fidelity.seen import Seen
from workloads.kinds.base import Evidence
from workloads.sync.cost import goodput


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None:
        return
    trial = seen.trial
    evidence = Evidence(
        plan=trial.network.forest,
        samples=seen.samples,
        iterations=trial.iterations,
        cost=trial.network.cost,
        least_gst_s=trial.gst_theory_s,
        goodput=goodput(trial.spec.links.mtu),
        pace_s=trial.compute.pace_s,
    )
    yield from trial.kind.judge(evidence)
