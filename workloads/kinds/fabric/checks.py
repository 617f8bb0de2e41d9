"""Checks whether updates were faster than they can be, or more stale than the scheme allows."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.base.check import Check
from testbed.workloads.kinds.asynchronous.checks import judge_staleness, judge_updates, whole
from testbed.workloads.kinds.asynchronous.ledger import most_stale
from testbed.workloads.kinds.base import Expected, Told
from testbed.workloads.kinds.fabric.measures import APPLIED
from testbed.workloads.kinds.fabric.parts import DIVERGENCE
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.scheduling.divergence import most_within


def judge(plan: Fabric, told: Told, expected: Expected) -> Iterator[Check]:
    """Yield the checks of a finished trial."""
    applied = told.samples[told.samples["fate"].isin(APPLIED)]
    if applied.empty:
        return
    yield judge_staleness(int(applied["staleness"].max()), allowed(plan, len(told.samples)), len(applied))
    if plan.replica is not None and not (known := applied[applied["behind"].notna()]).empty:
        yield judge_divergence(known, plan)
    link_s = expected.iterations * expected.cost.round_s() / expected.goodput
    # Weights are sent to workers whose updates were dropped, too.
    yield judge_updates(applied, expected.least_gst_s, link_s, expected.pace_s, whole(told.samples))


def judge_divergence(applied: pd.DataFrame, plan: Fabric) -> Check:
    """Judge the distance of the weights of server and replica at each commit by the bound. A single update that is
    beyond it goes through once the replica has all before it; the metric ``divergence_breaches`` counts such
    commits."""
    most = plan.options.divergence_bound
    if most is None:
        assert plan.options.divergence_updates is not None
        limit, unit, worst = float(plan.options.divergence_updates), "updates", float(applied["behind"].max())
    else:
        limit, unit = most_within(most), "norm of weights"
        together = applied.loc[applied["behind"] > 1, "divergence"]
        worst = float(together.max()) if len(together) else 0.0
    behind, far = applied["behind"].max(), applied["divergence"].max()
    detail = (
        f"when the server applied an update, the replica was behind by at most {behind:.0f} updates and {far:.4g} (the "
        f"sum of norms of eq. 11); the scheme allows {limit:.4g} ({unit})"
    )
    if most is not None:
        detail += ", and a single update beyond that, which divergence_breaches counts"
    return Check(DIVERGENCE.name, worst, limit, unit, worst <= limit, detail)


def allowed(plan: Fabric, updates: int) -> int:
    """Return the largest staleness that an update may have."""
    options, world = plan.options, len(plan.workers)
    limits = [updates - 1]
    limits += [options.delay_bound - 1] if options.delay_bound is not None else []
    limits += [most_stale(world, options.staleness)] if options.staleness is not None else []
    return min(limits)
