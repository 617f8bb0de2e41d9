"""Time for which a worker, able to run, waited for a core."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.base.check import ALL, WHOLE_JOB, About, Check, not_watched
from testbed.fidelity.outside import Outside, worst
from testbed.fidelity.seen import Seen
from testbed.workloads.kinds.measures import Measures, Windows

ABOUT = About(
    "run queue",
    sees="a process that waited too long for a core while gradients were on the wire, from the kernel's schedstat: of "
    "a worker, its threads together; of a script's rank, the thread that waited longest. Of a command's rank, the same "
    "for the whole job",
    misses="waits of threads that a library starts later in a worker; waits of a script while it computes (see stalls)",
    machine=True,
    needed=True,
)
WAITED = 0.25
"""Most of the synchronisation for which a worker waited for a core: 5 to 6 % at 18 x 200 Mbit/s on two cores, where GST
was 1.02 of theory; 72 to 79 % at 18 x 1 Gbit/s, where it was 1.14 to 1.37."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None or "wait_s" not in seen.samples:  # processes of others, which do not count
        yield from_outside(Outside.of(seen), None if seen.samples is None else seen.windows, seen.window)
        return
    polls = seen.job.kind.software.polling(seen.job.plan)
    if not polls and seen.job.work.overlap != "both":  # then the next forward pass is computed meanwhile
        yield judge(seen.counted, seen.job.kind.own_samples.measures)


def from_outside(outside: Outside, windows: Windows | None, window: tuple[float, float]) -> Check:
    """Judge for how much of synchronisations the worst process waited for a core, as the kernel counts it; of a
    command, of which no synchronisations are known (None), for how much of the job."""
    threatens = ALL if windows is not None else WHOLE_JOB
    if why := outside.missing:
        return not_watched(ABOUT, WAITED, "of GST", why, threatens=threatens)
    if not outside.counts_waits:
        return not_watched(ABOUT, WAITED, "of GST", "this kernel does not count run-queue waits", threatens=threatens)
    unit, of = ("of JCT", "the job") if windows is None else ("of GST", "synchronisations")
    name, share = worst(outside.waited([window] if windows is None else windows))
    detail = f"{name} waited for a core during {share:.0%} of {of}, the most of all"
    return Check(
        ABOUT.name, share, WAITED, unit, share <= WAITED, detail, threatens=threatens, machine=True, needed=True
    )


def judge(samples: pd.DataFrame, measures: Measures) -> Check:
    """Judge for how much of a synchronisation the worst worker waited for a core."""
    if samples["wait_s"].isna().any():
        return not_watched(ABOUT, WAITED, "of GST", "this kernel does not count run-queue waits")
    share, of = measures.core_wait(samples)
    detail = f"a worker waited for a core during {share:.0%} of {of}"
    return Check(ABOUT.name, share, WAITED, "of GST", share <= WAITED, detail, machine=True, needed=True)
