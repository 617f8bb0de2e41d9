"""A trial's table of what waited at the egresses of its links, as it was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.analysis.record.tables import Window, columns
from testbed.analysis.tables import parquet
from testbed.files.foreign import UnfitError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = columns(Window)
"""Columns that a table must have."""
MOST_BYTES = 2**24
"""Bytes that a table may have, however small its file: queues that are full all the time have one number. A trial's
largest table, as ``testbed/lab/netns/readings/queues.py`` bounds it, has half of that."""
_LARGEST = 1e12
"""Far beyond what can wait, and how long a trial can take."""


def read(run_dir: Path, trial: str) -> pd.DataFrame | None:
    """The table of one trial of a run directory, by time and link; None where there is none.

    Raises:
        OutputError: it is damaged, or larger than a table may be.
    """
    found = parquet.of_trial(_path(run_dir, trial), run_dir, COLUMNS, _check_values, MOST_BYTES)
    return None if found is None else found.sort_values(["start_s", "link"], ignore_index=True)


def is_there(run_dir: Path, trial: str) -> bool:
    """Whether there is such a table, which this does not read."""
    path = _path(run_dir, trial)
    return path.is_file() and not path.is_symlink()


def _path(run_dir: Path, trial: str) -> Path:
    return run_dir / "queues" / f"{trial}.parquet"


def _check_values(table: pd.DataFrame) -> None:
    parquet.check_range(table, COLUMNS, 0, _LARGEST, "numbers from 0 on")
    parquet.check_whole(table, ["link"])
    if not (table["window_s"] > 0).all() or not (table["full_share"] <= 1).all():
        raise UnfitError("damaged, a window has no length, or a share is above 1")
