"""Meaning of the times in the samples of a trial with scheduled transfers: each sample is an update of its own.

A round is as many applied updates, one after the other, as there are workers. Updates that were dropped belong to the
round that was going on.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures
from testbed.workloads.kinds.fabric.fates import Fate

APPLIED = [int(fate) for fate in Fate if fate.is_applied]


class ScheduledMeasures(UpdatesMeasures):
    """Measures of schemes in which some updates are dropped."""

    columns = frozenset({"update", "fate"})
    fates: Mapping[int, str] = {int(fate): fate.name.lower() for fate in Fate}

    def rounds(self, samples: pd.DataFrame) -> pd.DataFrame:
        ordered = samples.sort_values("update")
        applied = ordered["fate"].isin(APPLIED).astype(int)
        before = (applied.cumsum() - applied).clip(upper=max(0, int(applied.sum()) - 1))
        ends = (ordered["end_s"] - ordered["held_s"]).cummax()
        return ordered.assign(iteration=before // samples["rank"].nunique(), end_s=ends)

    def staleness(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[int] | None:
        """Return the staleness of the updates that were applied."""
        return super().staleness(samples[samples["fate"].isin(APPLIED)], skip)
