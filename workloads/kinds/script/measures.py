"""What the times in the samples of a script mean."""

from __future__ import annotations

import pandas as pd

from workloads.kinds.measures import Measures


class ScriptMeasures(Measures):
    """A script may ask for collectives at any time, so those who add for others work beyond GST."""

    columns = frozenset({"exposed_s", "hidden_s"})

    def adding_s(self, samples: pd.DataFrame) -> tuple[float, str]:
        busy_s = (samples["exposed_s"] + samples["hidden_s"]).fillna(samples["end_s"] - samples["start_s"])
        return float(busy_s.groupby(samples["iteration"]).max().sum()), "while collectives were on their way"
