"""What the times in the samples of an asynchronous trial mean: each is an update of its own.

A round is as many updates, one after the other, as there are workers. It ends when the last of its workers could have
gone on, had none been held back.
"""

from __future__ import annotations

import pandas as pd

from testbed.workloads.kinds.measures import TRAINING, Measures, Windows, differences


class UpdatesMeasures(Measures):
    """Of schemes in which nobody waits for a sum."""

    columns = frozenset({"update"})
    defines_bandwidth = False
    noun = "round"

    def rounds(self, samples: pd.DataFrame) -> pd.DataFrame:
        ordered = samples.sort_values("update")
        ends = (ordered["end_s"] - ordered["held_s"]).cummax()
        return ordered.assign(iteration=ordered["update"] // samples["rank"].nunique(), end_s=ends)

    def gst_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Each update's own, from a worker's gradient to newer weights, without the time for which these were held
        back; there are several of each iteration, in the order of the updates."""
        ordered = _counted(samples, skip).sort_values("update")
        own = ordered["sum_s"] - ordered["ready_s"] - ordered["held_s"]
        return own.set_axis(pd.Index(ordered["iteration"])).rename("gst_s")

    def iterations_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Of each round."""
        return differences(self.rounds(samples).groupby("iteration")["end_s"].max(), samples, skip)

    def jct_s(self, samples: pd.DataFrame) -> float:
        return float(samples["end_s"].max() - samples["start_s"].min())

    def compute_s(self, samples: pd.DataFrame) -> float:
        return self.jct_s(samples) - self.sync_s(samples)

    def sync_s(self, samples: pd.DataFrame) -> float:
        """From each worker's own gradients to newer weights, on average over the workers."""
        return float((samples["end_s"] - samples["ready_s"]).sum() / samples["rank"].nunique())

    def waits_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
        """For how long weights were held back from each rank; NaN beyond what a rank got done."""
        return _counted(samples, skip).pivot(index="iteration", columns="rank", values="held_s")

    def going_s(self, samples: pd.DataFrame) -> pd.Series[float]:
        return samples["ready_s"] + samples["held_s"]

    def staleness(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[int] | None:
        return _counted(samples, skip).sort_values("update")["staleness"]

    def on_the_wire(self, samples: pd.DataFrame, *, overlapped: bool) -> tuple[Windows, str]:
        """Somebody's gradient is, all along."""
        return [(float(samples["start_s"].min()), float(samples["sum_s"].max()))], TRAINING

    def adding_s(self, samples: pd.DataFrame) -> tuple[float, str]:
        return self.jct_s(samples), TRAINING

    def core_wait(self, samples: pd.DataFrame) -> tuple[float, str]:
        """Of the worst worker, the median over its updates."""
        shares = samples["wait_s"] / (samples["sum_s"] - samples["ready_s"])
        return float(shares.groupby(samples["rank"]).median().max()), "an update"


def _counted(samples: pd.DataFrame, skip: int) -> pd.DataFrame:
    return samples[samples["iteration"] >= skip]
