"""For how long a worker, able to run, waited for a core."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.base.check import About, Check, not_watched
from testbed.fidelity.seen import Seen
from workloads.kinds.measures import Measures

ABOUT = About(
    "run queue",
    sees="a worker that waited too long for a core while gradients were on the wire, from the kernel's schedstat",
    misses="waits of threads that a library starts later",
    machine=True,
    needed=True,
)
WAITED = 0.25
"""Most of the synchronisation for which a worker waited for a core: 5 to 6 % at 18 x 200 Mbit/s on two cores, where GST
was 1.02 of theory; 72 to 79 % at 18 x 1 Gbit/s, where it was 1.14 to 1.37."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None or "wait_s" not in seen.samples:  # a script's threads are its own
        return
    polls = seen.job.kind.polling(seen.job.plan)
    if not polls and seen.job.work.overlap != "both":  # then the next forward pass is computed meanwhile
        yield judge(seen.counted, seen.job.kind.measures)


def judge(samples: pd.DataFrame, measures: Measures) -> Check:
    """For how much of a synchronisation the worst worker waited for a core."""
    if samples["wait_s"].isna().any():
        return not_watched(ABOUT, WAITED, "of GST", "this kernel does not count run-queue waits")
    share, of = measures.core_wait(samples)
    detail = f"a worker waited for a core during {share:.0%} of {of}"
    return Check(ABOUT.name, share, WAITED, "of GST", share <= WAITED, detail, machine=True, needed=True)
