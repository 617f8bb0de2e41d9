"""What the times in a trial's samples mean: synchronisation, completion, throughput, bandwidth.

``samples`` is a table with a row for each (rank, iteration) and at least the columns ``rank``, ``iteration``,
``start_s`` (the iteration begins), ``ready_s`` (the worker has its own gradient), ``sum_s`` (it has the whole sum) and
``end_s`` (it has stepped the optimiser), in seconds on one clock. ``world``, if there, is how many workers an iteration
must have, where nodes have died meanwhile; else all must be in each.
"""

from __future__ import annotations

import pandas as pd

from testbed.errors import OutputError


def gst_s(samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
    """Gradient synchronisation time (s) of each iteration, without the first ``skip``.

    From the moment the last worker has its gradient to the moment the last worker has the sum, so waiting for a
    straggler is not part of it.

    Raises:
        OutputError: an iteration is not there for every rank, or there is none.
    """
    moments = _last_moments(samples)
    return (moments["sum_s"] - moments["ready_s"]).iloc[skip:].rename("gst_s")


def jct_s(samples: pd.DataFrame) -> float:
    """Job completion time (s): the first worker starts its first iteration to the last worker ends its last.

    Raises:
        OutputError: as :func:`gst_s`.
    """
    return float(_last_moments(samples)["end_s"].iloc[-1] - samples["start_s"].min())


def compute_s(samples: pd.DataFrame) -> float:
    """The part of :func:`jct_s` (s) until the last worker has its gradient, summed over the iterations.

    An iteration counts from the end of the one before (of the last worker), so this plus :func:`sync_s` is the JCT.

    Raises:
        OutputError: as :func:`gst_s`.
    """
    moments = _last_moments(samples)
    begin = moments["end_s"].shift(fill_value=float(samples["start_s"].min()))
    return float((moments["ready_s"] - begin).sum())


def sync_s(samples: pd.DataFrame) -> float:
    """The rest of :func:`jct_s` (s): from the last worker's gradient to the last optimiser step, over all iterations.

    Raises:
        OutputError: as :func:`gst_s`.
    """
    moments = _last_moments(samples)
    return float((moments["end_s"] - moments["ready_s"]).sum())


def waits_s(samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
    """float64[iterations, ranks]: how long (s) each rank, its gradient ready, waited for the slowest one's, without the
    first ``skip`` iterations. This is before GST begins, and not part of it. NaN where a rank was not there any more.

    Raises:
        OutputError: as :func:`gst_s`.
    """
    ready = samples.pivot(index="iteration", columns="rank", values="ready_s")
    return ready.rsub(_last_moments(samples)["ready_s"], axis=0).iloc[skip:]


def throughput_sps(samples: pd.DataFrame, trained: int) -> float:
    """Training samples per second of JCT; ``trained`` is how many all workers together took in all iterations.

    Raises:
        OutputError: as :func:`gst_s`.
    """
    return trained / jct_s(samples)


def algbw_bps(gradient_bytes: int, time_s: float) -> float:
    """Algorithm bandwidth (bit/s) as nccl-tests define it: size of the whole array over the time, S / t."""
    return gradient_bytes * 8 / time_s


def busbw_bps(gradient_bytes: int, time_s: float, world: int) -> float:
    """Ring-equivalent bus bandwidth (bit/s) of ``world`` workers: algbw * 2(n-1)/n, nccl-tests' rule for allreduce.

    It is the rate at which a ring would have to drive every NIC to be as fast; a scheme that is not a ring, or one
    that sums in switches, can exceed the line rate.
    """
    return algbw_bps(gradient_bytes, time_s) * 2 * (world - 1) / world


def _last_moments(samples: pd.DataFrame) -> pd.DataFrame:
    """By iteration in order, the moment (s) the last rank is ready, has the sum, and ends."""
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
