"""Metrics from the times in a trial's samples: synchronisation, completion, throughput, bandwidth.

``samples`` is a table with a row for each (rank, iteration) and at least the columns ``rank``, ``iteration``,
``start_s`` (the iteration begins), ``ready_s`` (the worker has its own gradient), ``sum_s`` (it has the whole sum) and
``end_s`` (it has stepped the optimiser), in seconds on one clock. ``world``, if there, is how many workers an iteration
must have, where nodes have died meanwhile; else all must be in each.

Of an asynchronous scheme each row is an update of its own, and workers have as many as they got done; ``update`` is its
place in the order in which the server applied them, ``staleness`` how many of others came between the weights that it
was computed on and itself, and ``held_s`` for how long the server held newer weights back from its worker.

Times of iterations, their parts and their sums raise OutputError if an iteration is not there for every rank, or there
is none.
"""

from __future__ import annotations

import pandas as pd

from testbed.workloads.kinds import measures_of


def rounds(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples with rounds for iterations, where these are not what all workers do together.

    A round of an asynchronous scheme is as many updates, one after the other, as there are workers. It ends
    (``end_s``) when the last of its workers could have gone on, had none been held back.
    """
    return measures_of(samples.columns).rounds(samples)


def gst_s(samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
    """Gradient synchronisation time (s) of each iteration, without the first ``skip``.

    From the moment the last worker has its gradient to the moment the last worker has the sum, so waiting for a
    straggler is not part of it.

    Of an asynchronous scheme it is each update's own, from a worker's gradient to newer weights, without the time for
    which these were held back; there are several of each iteration then, in the order of the updates.
    """
    return measures_of(samples.columns).gst_s(samples, skip)


def iterations_s(samples: pd.DataFrame, skip: int = 0) -> pd.Series[float]:
    """Compute the time that each iteration takes (s), without the first ``skip``: from the moment the last worker has
    one sum, or the first worker starts, to the moment the last worker has the next. Of an asynchronous scheme, the time
    of each round."""
    return measures_of(samples.columns).iterations_s(samples, skip)


def ends_s(samples: pd.DataFrame) -> pd.Series[float]:
    """Compute for each iteration when the last worker ended it (s), from the trial's start."""
    ends: pd.Series[float] = rounds(samples).groupby("iteration")["end_s"].max()
    return ends - float(samples["start_s"].min())


def mini_batches(samples: pd.DataFrame) -> pd.Series[float]:
    """Count for each iteration the mini-batches that a worker had computed at its end, on average. Of updates, those
    that were dropped meanwhile count, too."""
    done: pd.Series[float] = rounds(samples).groupby("iteration").size().cumsum() / samples["rank"].nunique()
    return done


def jct_s(samples: pd.DataFrame) -> float:
    """Job completion time (s): the first worker starts its first iteration to the last worker ends its last."""
    return measures_of(samples.columns).jct_s(samples)


def median_of_means(samples: pd.DataFrame, column: str, skip: int = 0) -> float:
    """The median over iterations, without the first ``skip``, of the mean over workers of a column."""
    counted = samples[samples["iteration"] >= skip]
    return float(counted.groupby("iteration")[column].mean().median())


def compute_s(samples: pd.DataFrame) -> float:
    """The part of :func:`jct_s` (s) until the last worker has its gradient, summed over the iterations.

    An iteration counts from the end of the one before (of the last worker), so this plus :func:`sync_s` is the JCT.
    """
    return measures_of(samples.columns).compute_s(samples)


def sync_s(samples: pd.DataFrame) -> float:
    """The rest of :func:`jct_s` (s): from the last worker's gradient to the last optimiser step, over all iterations.

    Of an asynchronous scheme, from each worker's own gradients to newer weights, on average over the workers.
    """
    return measures_of(samples.columns).sync_s(samples)


def waits_s(samples: pd.DataFrame, skip: int = 0) -> pd.DataFrame:
    """float64[iterations, ranks]: how long (s) each rank, its gradient ready, waited for the slowest one's, without the
    first ``skip`` iterations. This is before GST begins, and not part of it. NaN where a rank was not there any more.

    Of an asynchronous scheme, for how long weights were held back from it; NaN beyond what a rank got done.
    """
    return measures_of(samples.columns).waits_s(samples, skip)


def staleness(samples: pd.DataFrame, skip: int = 0) -> pd.Series[int] | None:
    """Compute how stale each update of an asynchronous scheme was, in their order, without each worker's first
    ``skip``; None of a synchronous scheme.

    It is the difference between the version of the weights that an update was applied to and the one that it was
    computed on, that is, how many updates of other workers came in between (MLfabric, section 2: delay).
    """
    return measures_of(samples.columns).staleness(samples, skip)


def throughput_sps(samples: pd.DataFrame, trained: int) -> float:
    """Training samples per second of JCT; ``trained`` is how many all workers together took in all iterations."""
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
