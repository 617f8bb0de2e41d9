"""Meaning of the times in a trial's samples, where all workers get the sum of each iteration together.

``samples`` is a table as :mod:`testbed.analysis.metrics` describes it. A kind whose samples mean something else
overrides what differs; :mod:`testbed.analysis.metrics` has the definitions.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from testbed.base.errors import OutputError

Windows = list[tuple[float, float]]
SYNCHRONISING, TRAINING = "during synchronisation", "during training"


class Measures:
    """Measures of synchronous schemes.

    Attributes:
        columns: of a table of samples, besides those that every kind has.
        defines_bandwidth: whether the gradient's size over GST means something.
        noun: what an iteration is called.
        fates: what can become of an update, by its number in the column ``fate``; empty where all have the same fate.
    """

    columns: frozenset[str] = frozenset()
    defines_bandwidth = True
    noun = "iteration"
    fates: Mapping[int, str] = {}

    def rounds(self, samples: pd.DataFrame) -> pd.DataFrame:
        """Return the samples with rounds for iterations, where these are not what all workers do together."""
        return samples

    def gst_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Return the same as :func:`testbed.analysis.metrics.gst_s`."""
        moments = last_moments(samples)
        return (moments["sum_s"] - moments["ready_s"]).iloc[skip:].rename("gst_s")

    def iterations_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
        """Return the same as :func:`testbed.analysis.metrics.iterations_s`."""
        return differences(last_moments(samples)["sum_s"], samples, skip)

    def jct_s(self, samples: pd.DataFrame) -> float:
        """Return the same as :func:`testbed.analysis.metrics.jct_s`."""
        return float(last_moments(samples)["end_s"].iloc[-1] - samples["start_s"].min())

    def compute_s(self, samples: pd.DataFrame) -> float:
        """Return the same as :func:`testbed.analysis.metrics.compute_s`."""
        moments = last_moments(samples)
        begin = moments["end_s"].shift(fill_value=float(samples["start_s"].min()))
        return float((moments["ready_s"] - begin).sum())

    def sync_s(self, samples: pd.DataFrame) -> float:
        """Return the same as :func:`testbed.analysis.metrics.sync_s`."""
        moments = last_moments(samples)
        return float((moments["end_s"] - moments["ready_s"]).sum())

    def waits_s(self, samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
        """Return the same as :func:`testbed.analysis.metrics.waits_s`."""
        ready = samples.pivot(index="iteration", columns="rank", values="ready_s")
        return ready.rsub(last_moments(samples)["ready_s"], axis=0).iloc[skip:]

    def going_s(self, samples: pd.DataFrame) -> pd.Series[float]:
        """Return for each sample from when on (s) its worker synchronises, rather than waiting for others."""
        return samples.groupby("iteration")["ready_s"].transform("max")

    def staleness(self, samples: pd.DataFrame, skip: int = 0) -> pd.Series[int] | None:
        """Return the same as :func:`testbed.analysis.metrics.staleness`."""
        return None

    def on_the_wire(self, samples: pd.DataFrame, *, overlapped: bool) -> tuple[Windows, str]:
        """Return (start, end) of each time in which gradients are on the wire, in seconds, and when that is in words;
        ``overlapped`` says that they leave while they are computed."""
        by = samples.groupby("iteration")
        last = by[["ready_s", "sum_s"]].max()
        begin = by["start_s"].min() if overlapped else last["ready_s"]
        return list(zip(begin, last["sum_s"], strict=True)), SYNCHRONISING

    def adding_s(self, samples: pd.DataFrame) -> tuple[float, str]:
        """Return for how long (s) a node without a gradient of its own is at work at most, and when that is in
        words."""
        return self.sync_s(samples), SYNCHRONISING

    def core_wait(self, samples: pd.DataFrame) -> tuple[float, str]:
        """Return the share of GST for which the worst worker waited for a core, the median over iterations; and the
        name of what the share is of."""
        by = samples.groupby("iteration")
        window = by["sum_s"].max() - by["ready_s"].max()
        return float((by["wait_s"].max() / window).median()), "a synchronisation"


def differences(last_s: pd.Series[float], samples: pd.DataFrame, skip: int) -> pd.Series[float]:
    """Return the times between moments that follow each other, the first since the first worker's start."""
    before_s = last_s.shift(fill_value=float(samples["start_s"].min()))
    return (last_s - before_s).iloc[skip:].rename("iteration_s")


def last_moments(samples: pd.DataFrame) -> pd.DataFrame:
    """Return for each iteration, in order, the moments (s) at which the last rank is ready, has the sum, and ends.

    Raises:
        OutputError: an iteration is not there for every rank, or there is none.
    """
    iterations = samples.groupby("iteration")
    counts = iterations["rank"].nunique()
    if counts.empty:
        raise OutputError("the samples hold no iteration")
    wanted = iterations["world"].max() if "world" in samples else counts * 0 + samples["rank"].nunique()
    short = counts[counts < wanted]
    if not short.empty:
        raise OutputError(
            f"iteration {short.index[0]} has samples of {short.iloc[0]} of {wanted[short.index[0]]} workers",
            fix="run the trial again",
        )
    return iterations[["ready_s", "sum_s", "end_s"]].max()
