"""Meaning of the times in the samples of an asynchronous trial: each sample is an update of its own.

A round is as many updates, one after the other, as there are workers. It ends when the last of its workers could have
gone on, had none been held back.
"""

from __future__ import annotations

import pandas as pd

from testbed.workloads.kinds.measures import TRAINING, Measures, Windows, differences


class UpdatesMeasures(Measures):
    """Measures of schemes whose workers do not wait for a sum."""

    columns = frozenset({"update"})
    defines_bandwidth = False
    noun = "round"

    def rounds(self, samples: pd.DataFrame) -> pd.DataFrame:
        ordered = samples.sort_values("update")
        ends = (ordered["end_s"] - ordered["held_s"]).cummax()
        return ordered.assign(iteration=ordered["update"] // samples["rank"].nunique(), end_s=ends)

    def gst_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Return each update's time (s) from a worker's gradient to newer weights, without the time for which the
        server held these back. An iteration has several, in the order of the updates."""
        ordered = _counted(samples, skip).sort_values("update")
        own = ordered["sum_s"] - ordered["ready_s"] - ordered["held_s"]
        return own.set_axis(pd.Index(ordered["iteration"])).rename("gst_s")

    def iterations_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Return the time (s) that each round took."""
        return differences(self.rounds(samples).groupby("iteration")["end_s"].max(), samples, skip)

    def jct_s(self, samples: pd.DataFrame) -> float:
        return float(samples["end_s"].max() - samples["start_s"].min())

    def compute_s(self, samples: pd.DataFrame) -> float:
        return self.jct_s(samples) - self.sync_s(samples)

    def sync_s(self, samples: pd.DataFrame) -> float:
        """Return the time (s) from a worker's gradients to newer weights, summed over its updates, and averaged over
        the workers."""
        return float((samples["end_s"] - samples["ready_s"]).sum() / samples["rank"].nunique())

    def waits_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
        """Return for how long (s) weights were held back from each rank in each iteration; NaN beyond the last
        iteration of a rank."""
        return _counted(samples, skip).pivot(index="iteration", columns="rank", values="held_s")

    def going_s(self, samples: pd.DataFrame) -> pd.Series[float]:
        return samples["ready_s"] + samples["held_s"]

    def staleness(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[int] | None:
        return _counted(samples, skip).sort_values("update")["staleness"]

    def on_the_wire(self, samples: pd.DataFrame, *, overlapped: bool) -> tuple[Windows, str]:
        """Take the whole trial: some worker's gradient is on its way at any time."""
        return [(float(samples["start_s"].min()), float(samples["sum_s"].max()))], TRAINING

    def adding_s(self, samples: pd.DataFrame) -> tuple[float, str]:
        return self.jct_s(samples), TRAINING

    def core_wait(self, samples: pd.DataFrame) -> tuple[float, str]:
        """Return the share of an update's time for which the worst worker waited for a core: the median over its
        updates."""
        shares = samples["wait_s"] / (samples["sum_s"] - samples["ready_s"])
        return float(shares.groupby(samples["rank"]).median().max()), "an update"


def _counted(samples: pd.DataFrame, skip: int) -> pd.DataFrame:
    return samples[samples["iteration"] >= skip]
