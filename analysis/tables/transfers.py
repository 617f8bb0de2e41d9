"""A trial's table of the transfers that its kind has planned, as it was recorded: plan and reality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.analysis.record.tables import Transfer, columns
from testbed.analysis.tables import parquet
from testbed.files.foreign import UnfitError
from testbed.workloads.kinds.transfers import Purpose

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = columns(Transfer)
"""Columns that a table must have."""
WHOLE, MOMENTS = (*COLUMNS[:4], "shard"), COLUMNS[5:8]
NEAR = 0.05
"""A transfer that ends within this share of its planned time ended as planned."""
_LARGEST, _LONGEST_S = 2**53, 1e12
"""Far beyond a count or a number of bytes, and how long a trial can take."""


def read(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """The table of one trial of a run directory, by the moment at which transfers were to begin; None where there is
    none.

    Raises:
        OutputError: it is damaged, or larger than a table may be.
    """
    path = run_dir / "transfers" / f"{trial}.parquet"
    found = parquet.of_trial(path, run_dir, COLUMNS, _check_values, parquet.FREE_BYTES)
    return None if found is None else found.sort_values(["start_s", "end_s", "from", "to"], ignore_index=True)


def _check_values(table: pd.DataFrame) -> None:
    parquet.check_range(table, ("size_bytes", *WHOLE), 0, _LARGEST, "numbers from 0 on")
    parquet.check_range(table, ("start_s", "end_s"), -_LONGEST_S, _LONGEST_S, "times")
    parquet.check_range(table.dropna(subset="arrived_s"), ("arrived_s",), -_LONGEST_S, _LONGEST_S, "times")
    parquet.check_whole(table, WHOLE)
    if not (table["purpose"] <= max(Purpose)).all():
        raise UnfitError(f"damaged, a purpose is not 0 to {max(Purpose):d}")
    if not (table["end_s"] >= table["start_s"]).all():
        raise UnfitError("damaged, a transfer was to end before it began")


def late_shares(table: pd.DataFrame) -> pd.Series[float]:
    """Compute by how much each transfer was there later than planned, as a share of the time that it was to take;
    without those of which nobody told when they were there."""
    takes_s = table["end_s"] - table["start_s"]
    return ((table["arrived_s"] - table["end_s"]) / takes_s)[takes_s > 0].dropna()


def overtaken(table: pd.DataFrame) -> int:
    """Count the updates and sums that were there before one that was to be at the same node earlier."""
    known = table[(table["purpose"] != Purpose.WEIGHTS) & table["arrived_s"].notna()]
    # By node and planned end, the last arrival; of those that were to end at the same moment, none is before another.
    last_s = known.groupby(["to", "end_s"])["arrived_s"].max()
    earlier_s = last_s.groupby("to").cummax().groupby("to").shift().rename("earlier_s")
    both = known.join(earlier_s, on=["to", "end_s"])
    return int((both["arrived_s"] < both["earlier_s"]).sum())
