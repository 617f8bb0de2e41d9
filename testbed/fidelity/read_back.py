"""What the kernel has, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "read back",
    sees="after the trial, any rate, bucket, queue, delay or route that is not as asked, by two decoders; at random "
    "moments during the trial, any rate, bucket or queue; planned changes included",
    misses="what was changed and put back between two of these moments",
)


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.differs, seen.in_mid_run)


def judge(differs: str | None, in_mid_run: str) -> Check:
    """Whether the kernel had what was asked for after the trial, and whenever it was looked at in mid-run, as
    ``in_mid_run`` says; ``differs`` says what it did not have."""
    same = "rates, buckets, queues, delays and routes were the same after the trial as before"
    detail = differs or f"{same}; {in_mid_run}"
    return Check(ABOUT.name, float(differs is not None), 0.0, "differences", differs is None, detail)
