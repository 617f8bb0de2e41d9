"""A trial's tables as they were recorded: its samples, what waited at egresses, transfers, and collectives.

All but the samples are tables that a report can do without: they are None where there is no file, and OutputError says
what to delete if one is damaged, or larger than a table may be.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.analysis.record.tables import CollectiveCall, Sample, Transfer, Window, columns
from testbed.analysis.tables import parquet
from testbed.files.foreign import UnfitError
from testbed.workloads.kinds.transfers import Purpose

if TYPE_CHECKING:
    import pandas as pd

MOST_IN_ALL = 2**28
"""Values in all tables of samples of a run: two gigabytes of memory."""
MOST_BYTES_OF_QUEUES = 2**24
"""Bytes that a table of queues may have, however small its file: queues that are full all the time have one number. A
trial's largest table, as ``testbed/lab/netns/readings/queues.py`` bounds it, has half of that."""
NEAR = 0.05
"""A transfer that ends within this share of its planned time ended as planned."""
_LARGEST, _LONGEST_S = 2**53, 1e12
"""Far beyond a count or a number of bytes, and how long a trial can take."""


def samples(path: Path, below: Path) -> pd.DataFrame:
    """The numbers of the table of samples in a file below a folder that is not trusted, by iteration and rank.

    Raises:
        UnfitError: it is no such table, or too large; the text says why.
        OSError: it cannot be opened.
    """
    found = parquet.numbers(path, below, columns(Sample, required=True))
    ordered = found.sort_values(["iteration", "rank"], ignore_index=True)
    import numpy as np

    for name in ("rank", "iteration"):
        if ordered[name].dtype.kind not in "iu" or (ordered[name] < 0).any():
            raise UnfitError(f"damaged, {name} has something else than whole numbers from 0 on")
    for name in ("start_s", "ready_s", "sum_s", "end_s"):
        if not (ordered[name].abs() < _LONGEST_S).all():  # also false for NaN
            raise UnfitError(f"damaged, {name} has something else than times")
    ranks, iterations = ordered["rank"].to_numpy(), ordered["iteration"].to_numpy()
    if ((ranks[1:] == ranks[:-1]) & (iterations[1:] == iterations[:-1])).any():
        raise UnfitError("damaged, a worker has an iteration twice")
    if len(np.unique(ranks)) * len(np.unique(iterations)) > parquet.UNPACKED * len(ordered) + parquet.FREE_BYTES:
        raise UnfitError(f"damaged, {len(ordered):,} samples are of too many workers and iterations")
    return ordered


def queues(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """Read what waited at the egresses of links, by time and link."""

    def check(table: pd.DataFrame) -> None:
        parquet.check_range(table, names, 0, _LONGEST_S, "numbers from 0 on")
        parquet.check_whole(table, ["link"])
        if not (table["window_s"] > 0).all() or not (table["full_share"] <= 1).all():
            raise UnfitError("damaged, a window has no length, or a share is above 1")

    names = columns(Window)
    path = run_dir / "queues" / f"{trial}.parquet"
    found = parquet.of_trial(path, run_dir, names, check, MOST_BYTES_OF_QUEUES)
    return None if found is None else found.sort_values(["start_s", "link"], ignore_index=True)


def has_queues(run_dir: Path, trial: str) -> bool:
    """Whether there is a table of what waited, which this does not read."""
    path = run_dir / "queues" / f"{trial}.parquet"
    return path.is_file() and not path.is_symlink()


def collectives(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """The collectives that ranks of a script asked for."""

    def check(table: pd.DataFrame) -> None:
        parquet.check_range(table, names[:4], 0, _LARGEST, "numbers from 0 on")
        parquet.check_whole(table, names[:4])
        for name in ("asked_s", "came_s", "done_s"):
            parquet.check_range(table.dropna(subset=name), (name,), -_LONGEST_S, _LONGEST_S, "times")
        parquet.check_range(table.dropna(subset="held_s"), ("held_s",), 0, _LONGEST_S, "durations")
        if not (table["done_s"] >= table["asked_s"]).all():
            raise UnfitError("damaged, a collective was done before it was asked for")

    names = columns(CollectiveCall)
    return parquet.of_trial(run_dir / "collectives" / f"{trial}.parquet", run_dir, names, check)


def transfers(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """The transfers that a trial's kind has planned, plan and reality, by the moment at which they were to begin."""

    def check(table: pd.DataFrame) -> None:
        whole = (*names[:4], "shard")
        parquet.check_range(table, ("size_bytes", *whole), 0, _LARGEST, "numbers from 0 on")
        parquet.check_range(table, ("start_s", "end_s"), -_LONGEST_S, _LONGEST_S, "times")
        parquet.check_range(table.dropna(subset="arrived_s"), ("arrived_s",), -_LONGEST_S, _LONGEST_S, "times")
        parquet.check_whole(table, whole)
        if not (table["purpose"] <= max(Purpose)).all():
            raise UnfitError(f"damaged, a purpose is not 0 to {max(Purpose):d}")
        if not (table["end_s"] >= table["start_s"]).all():
            raise UnfitError("damaged, a transfer was to end before it began")

    names = columns(Transfer)
    found = parquet.of_trial(run_dir / "transfers" / f"{trial}.parquet", run_dir, names, check)
    return None if found is None else found.sort_values(["start_s", "end_s", "from", "to"], ignore_index=True)


def late_shares(transfers: pd.DataFrame) -> pd.Series[float]:
    """Compute by how much each transfer was there later than planned, as a share of the time that it was to take;
    without those of which nobody told when they were there."""
    takes_s = transfers["end_s"] - transfers["start_s"]
    return ((transfers["arrived_s"] - transfers["end_s"]) / takes_s)[takes_s > 0].dropna()


def overtaken(transfers: pd.DataFrame) -> int:
    """Count the updates and sums that were there before one that was to be at the same node earlier."""
    known = transfers[(transfers["purpose"] != Purpose.WEIGHTS) & transfers["arrived_s"].notna()]
    # By node and planned end, the last arrival; of those that were to end at the same moment, none is before another.
    last_s = known.groupby(["to", "end_s"])["arrived_s"].max()
    earlier_s = last_s.groupby("to").cummax().groupby("to").shift().rename("earlier_s")
    both = known.join(earlier_s, on=["to", "end_s"])
    return int((both["arrived_s"] < both["earlier_s"]).sum())
