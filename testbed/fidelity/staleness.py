"""How stale the updates of an asynchronous scheme were, against what it allows."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen
from workloads.sync.ledger import most_stale

ABOUT = About(
    "staleness",
    sees="an update of an asynchronous scheme that is more stale than the scheme allows",
    misses="the order that updates would have on other machines",
)


def checks(seen: Seen) -> Iterator[Check]:
    asynchronous = seen.trial.network.forest.asynchronous
    if seen.samples is None or asynchronous is None:
        return
    updates = len(seen.samples)
    bound = asynchronous.staleness
    allowed = updates - 1 if bound is None else most_stale(seen.trial.network.world, bound)
    yield judge(int(seen.samples["staleness"].max()), min(allowed, updates - 1), updates)


def judge(most: int, limit: int, updates: int) -> Check:
    """The most stale of all updates against what the scheme allows, and what is not known of them all."""
    detail = (
        f"of {updates:,} updates the most stale missed {most} others; the scheme allows {limit}. Weights and sums are "
        "held against the server's order of updates; what order there would be on other machines is not judged"
    )
    return Check(ABOUT.name, float(most), float(limit), "updates", most <= limit, detail)
