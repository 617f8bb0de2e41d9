"""For how long a worker, able to run, waited for a core."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "run queue",
    sees="a worker that waited too long for a core while gradients were on the wire, from the kernel's schedstat",
    misses="waits of threads that a library starts later",
    machine=True,
)
WAITED = 0.25
"""Most of the synchronisation for which a worker waited for a core: 5 to 6 % at 18 x 200 Mbit/s on two cores, where GST
was 1.02 of theory; 72 to 79 % at 18 x 1 Gbit/s, where it was 1.14 to 1.37."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.samples is None:
        return
    if seen.trial.asynchronous:
        yield judge_updates(seen.counted)
        return
    library = seen.trial.network.forest.library
    polls = library is not None and library.polls
    if not polls and seen.trial.work.overlap != "both":  # then the next forward pass is computed meanwhile
        yield judge(seen.counted)


def judge(samples: pd.DataFrame) -> Check:
    """For how much of the synchronisation the worst worker waited for a core; median over iterations."""
    if samples["wait_s"].isna().any():
        return _uncounted()
    by = samples.groupby("iteration")
    window = by["sum_s"].max() - by["ready_s"].max()
    share = float((by["wait_s"].max() / window).median())
    return _check(share, f"a worker waited for a core during {share:.0%} of a synchronisation")


def judge_updates(samples: pd.DataFrame) -> Check:
    """The same where workers do not synchronise together: of the worst worker, the median over its updates."""
    if samples["wait_s"].isna().any():
        return _uncounted()
    shares = samples["wait_s"] / (samples["sum_s"] - samples["ready_s"])
    share = float(shares.groupby(samples["rank"]).median().max())
    return _check(share, f"a worker waited for a core during {share:.0%} of an update")


def _check(share: float, detail: str) -> Check:
    return Check(ABOUT.name, share, WAITED, "of GST", share <= WAITED, detail, machine=True)


def _uncounted() -> Check:
    detail = "this kernel does not count run-queue waits"
    return Check(ABOUT.name, None, WAITED, "of GST", True, detail, machine=True)
