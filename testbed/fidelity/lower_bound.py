"""Lower bounds: no number can be less than the links, the bytes and the pace allow, unless these are not what was asked
for."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.analysis import metrics
from testbed.base.check import LOWER_BOUND, About, Check, not_watched
from testbed.evidence.bounds import Bounds
from testbed.fidelity.seen import Seen

ABOUT = About(
    LOWER_BOUND,
    sees="GST below its lower bound, in one iteration or in all after the warm-up together; JCT below its lower bound; "
    "asynchronous updates that were too fast: links were faster than asked, or the pace was not kept",
    misses="links slower than asked: GST over its lower bound shows them",
)
UNPROVEN = "not known: which bytes a library moves in this algorithm is not ours to say"
FASTER = 0.03
"""Most by which one iteration is faster than the links' rates allow: moments are those of processes that may be woken
a little late."""
FASTER_TOGETHER = 0.01
"""Most by which all iterations together are faster, where late wake-ups even out."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None:
        return
    if seen.bounds is not None:
        if not seen.job.knows_bytes:
            yield not_watched(ABOUT, 1 - FASTER, "of theory", UNPROVEN)
            return
        yield judge(seen.every, seen.bounds, seen.clocks_s, seen.job.work.warmup)


def judge(samples: pd.DataFrame, bounds: Bounds, clocks_s: float = 0.0, warmup: int = 0) -> Check:
    """Judge the iteration, the sum of those after the ``warmup`` or the JCT that is least above its bound; GST counts
    from the last worker's gradient, as bounds do. Where hosts have clocks of their own, each iteration may be
    ``clocks_s`` longer than it seems."""
    by = samples.groupby("iteration")
    taken_s = by["sum_s"].max() - by["ready_s"].max() + clocks_s
    bounded = bounds.gst_s[bounds.gst_s > 0]
    found: list[tuple[float, float, str]] = []  # value over what is allowed, value, what it is of
    if not bounded.empty:
        ratios = taken_s[bounded.index] / bounded
        found.append(_found(float(ratios.min()), FASTER, f"GST of iteration {ratios.idxmin()} is"))
        counted = bounded[bounded.index >= warmup]
        if not counted.empty:
            together = float(taken_s[counted.index].sum() / counted.sum())
            found.append(_found(together, FASTER_TOGETHER, "GST of all iterations after the warm-up together is"))
    if bounds.jct_s:
        jct_s = metrics.jct_s(samples) + clocks_s * len(taken_s)
        found.append(_found(jct_s / bounds.jct_s, FASTER_TOGETHER, "JCT is"))
    if not found:
        return not_watched(ABOUT, 1 - FASTER, "of theory", "nothing is certain to take any time")
    _, ratio, what = min(found)
    limit = 1 - (FASTER if "of iteration " in what else FASTER_TOGETHER)
    detail = f"{what} {ratio:.3f} of the least that the links allow"
    return Check(ABOUT.name, ratio, limit, "of theory", ratio >= limit, detail)


def _found(ratio: float, faster: float, what: str) -> tuple[float, float, str]:
    return ratio / (1 - faster), ratio, what
