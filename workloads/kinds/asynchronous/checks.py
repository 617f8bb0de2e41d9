"""Checks whether updates were faster than they can be, or more stale than the scheme allows."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.base.check import LOWER_BOUND, Check
from testbed.workloads.kinds.asynchronous.kind import STALENESS
from testbed.workloads.kinds.asynchronous.ledger import most_stale
from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures
from testbed.workloads.kinds.asynchronous.plan import staleness
from testbed.workloads.kinds.base import Expected, Told
from testbed.workloads.sync.forest import Forest

FASTER = 0.03
"""Share by which updates may be faster than the links' rates allow: moments are those of processes that may be woken a
little late."""


def judge(plan: Forest, told: Told, expected: Expected) -> Iterator[Check]:
    """Yield both checks of a finished trial."""
    updates, bound = len(told.samples), staleness(plan)
    allowed = updates - 1 if bound is None else most_stale(len(plan.workers), bound)
    yield judge_staleness(int(told.samples["staleness"].max()), min(allowed, updates - 1), updates)
    link_s = expected.iterations * expected.cost.round_s() / expected.goodput
    yield judge_updates(told.samples, expected.least_gst_s, link_s, expected.pace_s)


def judge_staleness(most: int, limit: int, updates: int) -> Check:
    """Judge the most stale of all updates by what the scheme allows, and say what is not known of them all."""
    detail = (
        f"of {updates:,} updates the most stale missed {most} others; the scheme allows {limit}. Weights and sums are "
        "held against the server's order of updates; what order there would be on other machines is not judged"
    )
    return Check(STALENESS.name, float(most), float(limit), "updates", most <= limit, detail)


def whole(samples: pd.DataFrame) -> float:
    """Return the time (s) from the first gradient to the last weights."""
    return float(samples["sum_s"].max() - samples["ready_s"].min())


def judge_updates(
    samples: pd.DataFrame, alone_s: float, busiest_link_s: float, pace_s: float = 0.0, whole_s: float | None = None
) -> Check:
    """Judge how fast updates were. No update can be faster than its bytes allow there and back when nobody else sends,
    ``alone_s``, and all of them not faster than the busiest link carries them; they take ``whole_s``, if that is not
    what the samples say. The job takes at least as long as the slowest worker would need alone: it computes each update
    at its pace, and then exchanges it."""
    own_s = samples["sum_s"] - samples["ready_s"] - samples["held_s"]
    each = float(own_s.median()) / alone_s if alone_s > 0 else float("inf")
    whole_s = whole(samples) if whole_s is None else whole_s
    together = whole_s / busiest_link_s
    chain_s = (samples["factor"] * pace_s + samples["extra_s"] + alone_s).groupby(samples["rank"]).sum().max()
    job = float(UpdatesMeasures().jct_s(samples) / chain_s) if chain_s > 0 else float("inf")
    least = {
        "from gradients to newer weights an update takes": each,
        "from gradients to newer weights all updates together take": together,
        "JCT is": job,
    }
    what = min(least, key=least.__getitem__)
    ratio = least[what]
    detail = f"{what} {ratio:.3f} of the least that the links allow"
    return Check(LOWER_BOUND, ratio, 1 - FASTER, "of theory", ratio >= 1 - FASTER, detail)
