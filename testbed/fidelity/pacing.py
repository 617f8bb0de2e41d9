"""Whether workers computed as fast as their pace asks."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.fidelity.check import WHOLE_JOB, About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "pacing",
    sees="computing that took longer than the pace",
    misses="how long computing should take if the spec has no pace",
    threatens=WHOLE_JOB,
    machine=True,
)
OVERRUN = 0.02
"""Most by which computing exceeds the pace, as a share of the paced time."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is not None and seen.trial.compute.mode == "paced":
        yield judge(seen.every, seen.trial.compute.pace_s)  # JCT has the warm-up in it


def judge(samples: pd.DataFrame, pace_s: float) -> Check:
    """By how much the slowest worker's computing exceeds the pace, as a share of it, on average over iterations.

    GST counts from the moment the last worker has its gradient, so it does not matter to it.
    """
    late = samples.groupby("iteration")["overrun_s"].max()
    share = float(late.mean()) / pace_s if pace_s else float(late.max() > 0)
    detail = f"{int((late > 0).sum())} of {len(late)} iterations computed longer than the pace, by {share:.1%} of it"
    return Check(ABOUT.name, share, OVERRUN, "of pace", share <= OVERRUN, detail, threatens=WHOLE_JOB, machine=True)
