"""Settings in the kernel, against what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.base.check import About, Check, not_watched
from testbed.base.listing import counted
from testbed.fidelity.seen import Seen

ABOUT = About(
    "read back",
    sees="after the trial, any rate, bucket, queue, delay or route that is not as asked, by two decoders; at random "
    "moments during the trial, any rate, bucket or queue; planned changes included",
    misses="what was changed and put back between two of these moments (if a short trial has no such moment, nothing "
    "of it is certified)",
)


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.differs, seen.in_mid_run)


def judge(differs: str | None, in_mid_run: Sequence[int]) -> Check:
    """Judge whether the kernel had what was asked for after the trial and whenever it was read; ``differs`` says what
    it did not have.

    ``in_mid_run`` is the number of directed links of each reading between the first start and the last end. Without a
    reading, nobody knows whether something was changed and put back, so the check has no value.
    """
    if differs is not None:
        return Check(ABOUT.name, 1.0, 0.0, "differences", False, differs)
    same = "rates, buckets, queues, delays and routes were the same after the trial as before"
    if not in_mid_run:
        detail = f"{same}; there was no reading in mid-run, so nothing is certified"
        return not_watched(ABOUT, 0.0, "differences", detail)
    count, links = len(in_mid_run), round(sum(in_mid_run) / len(in_mid_run))
    detail = f"{same}; {counted(count, 'reading')} in mid-run, of {links} directed links each"
    return Check(ABOUT.name, 0.0, 0.0, "differences", True, detail)
