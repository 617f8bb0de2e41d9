"""Whether updates were faster than they can be, or more stale than the scheme allows."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.base.check import Check
from workloads.kinds.asynchronous.checks import judge_staleness, judge_updates, whole
from workloads.kinds.asynchronous.ledger import most_stale
from workloads.kinds.base import Evidence
from workloads.kinds.fabric.measures import APPLIED
from workloads.kinds.fabric.plan import Fabric


def judge(seen: Evidence) -> Iterator[Check]:
    """The checks of a finished trial."""
    plan: Fabric = seen.plan
    applied = seen.samples[seen.samples["fate"].isin(APPLIED)]
    if applied.empty:
        return
    yield judge_staleness(int(applied["staleness"].max()), allowed(plan, len(seen.samples)), len(applied))
    link_s = seen.iterations * seen.cost.round_s() / seen.goodput
    # Weights are sent to workers whose updates were dropped, too.
    yield judge_updates(applied, seen.least_gst_s, link_s, seen.pace_s, whole(seen.samples))


def allowed(plan: Fabric, updates: int) -> int:
    """The most stale that an update may be."""
    options, world = plan.options, len(plan.workers)
    limits = [updates - 1]
    limits += [options.delay_bound - 1] if options.delay_bound is not None else []
    limits += [most_stale(world, options.staleness)] if options.staleness is not None else []
    return min(limits)
