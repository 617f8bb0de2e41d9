"""Whether workers computed as fast as their pace asks."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.analysis import metrics
from testbed.base.check import JCT, THROUGHPUT, WHOLE_JOB, About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "pacing",
    sees="computing that took longer than the pace",
    misses="how long computing should take if the spec has no pace",
    threatens=WHOLE_JOB,
    machine=True,
    remedy="give a longer pace, a smaller batch or fewer workers",
)
OVERRUN = 0.02
"""Most by which computing exceeds the pace, as a share of the time that iterations take. An overrun makes them longer
by no more than itself."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is not None and seen.job.compute.mode == "paced":
        yield judge(seen.every, seen.job.work.warmup)


def judge(samples: pd.DataFrame, warmup: int) -> Check:
    """Judge by how much the slowest worker's computing exceeds the pace, as a share of the iterations' time together.
    JCT has the warm-up in it, in which programs do much for the first time; the times of iterations leave it out."""
    late = samples.groupby("iteration")["overrun_s"].max()
    took_s = metrics.iterations_s(samples)
    share, steady = (float(late.iloc[skip:].sum() / took_s.iloc[skip:].sum()) for skip in (0, warmup))
    threatens = WHOLE_JOB if steady > OVERRUN else (JCT, THROUGHPUT)
    detail = f"{int((late > 0).sum())} of {len(late)} iterations computed longer than the pace, by {share:.1%} of JCT"
    return Check(ABOUT.name, share, OVERRUN, "of JCT", share <= OVERRUN, detail, threatens=threatens, machine=True)
