"""Meaning of the times in the samples of a script."""

from __future__ import annotations

import pandas as pd

from testbed.workloads.kinds.measures import Measures


class ScriptMeasures(Measures):
    """Measures of scripts. A script may ask for collectives at any time, so processes that add for others work beyond
    GST."""

    columns = frozenset({"exposed_s", "hidden_s"})

    def waits_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
        """Return waits without the time for which a rank, its gradient ready, waits for the set-up of others in the
        first iteration."""
        return super().waits_s(samples.assign(ready_s=samples[["start_s", "ready_s"]].max(axis=1)), skip)

    def adding_s(self, samples: pd.DataFrame) -> tuple[float, str]:
        busy_s = (samples["exposed_s"] + samples["hidden_s"]).fillna(samples["end_s"] - samples["start_s"])
        if "setup_busy_s" in samples:  # not in older records
            busy_s = busy_s + samples["setup_busy_s"]
        return float(busy_s.groupby(samples["iteration"]).max().sum()), "while collectives were on their way"
