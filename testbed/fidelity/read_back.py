"""What the kernel has, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "read back",
    sees="any rate, bucket, queue, delay or route that is not as asked for after the trial, planned changes included",
    misses="what was changed and put back meanwhile",
)


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.differs)


def judge(differs: str | None) -> Check:
    """Whether the kernel had what was asked for; ``differs`` says what it did not."""
    detail = differs or "rates, buckets, queues, delays and routes were the same after the trial as before"
    return Check(ABOUT.name, float(differs is not None), 0.0, "differences", differs is None, detail)
