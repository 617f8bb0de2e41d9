"""A trial's table of the collectives that ranks of a script asked for, as it was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.analysis.record.tables import CollectiveCall, columns
from testbed.analysis.tables import parquet
from testbed.files.foreign import UnfitError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = columns(CollectiveCall)
"""Columns that a table must have."""
WHOLE, MOMENTS = COLUMNS[:4], ("asked_s", "came_s", "done_s")
_LARGEST, _LONGEST_S = 2**53, 1e12
"""Far beyond a count, and how long a trial can take."""


def read(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """The table of one trial of a run directory; None where there is none.

    Raises:
        OutputError: it is damaged, or larger than a table may be.
    """
    path = run_dir / "collectives" / f"{trial}.parquet"
    return parquet.of_trial(path, run_dir, COLUMNS, _check_values, parquet.FREE_BYTES)


def _check_values(table: pd.DataFrame) -> None:
    parquet.check_range(table, WHOLE, 0, _LARGEST, "numbers from 0 on")
    parquet.check_whole(table, WHOLE)
    for name in MOMENTS:
        parquet.check_range(table.dropna(subset=name), (name,), -_LONGEST_S, _LONGEST_S, "times")
    parquet.check_range(table.dropna(subset="held_s"), ("held_s",), 0, _LONGEST_S, "durations")
    if not (table["done_s"] >= table["asked_s"]).all():
        raise UnfitError("damaged, a collective was done before it was asked for")
