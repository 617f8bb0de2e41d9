"""A trial's table of samples as it was recorded, read with bounds (:mod:`testbed.analysis.tables.parquet`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.analysis.record.tables import Sample, columns
from testbed.analysis.tables import parquet
from testbed.files.foreign import UnfitError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = columns(Sample, required=True)
"""Columns that a table must have."""
MOMENTS = ("start_s", "ready_s", "sum_s", "end_s")
MOST_IN_ALL = 2**28
"""Values in all tables of a run: two gigabytes of memory."""


def read(path: Path, below: Path) -> pd.DataFrame:
    """The numbers of the table in a file below a folder that is not trusted, by iteration and rank.

    Raises:
        UnfitError: it is no such table, or too large; the text says why.
        OSError: it cannot be opened.
    """
    ordered = parquet.numbers(path, below, COLUMNS).sort_values(["iteration", "rank"], ignore_index=True)
    import numpy as np

    for name in ("rank", "iteration"):
        if ordered[name].dtype.kind not in "iu" or (ordered[name] < 0).any():
            raise UnfitError(f"damaged, {name} has something else than whole numbers from 0 on")
    for name in MOMENTS:
        if not (ordered[name].abs() < 1e12).all():  # also false for NaN
            raise UnfitError(f"damaged, {name} has something else than times")
    ranks, iterations = ordered["rank"].to_numpy(), ordered["iteration"].to_numpy()
    if ((ranks[1:] == ranks[:-1]) & (iterations[1:] == iterations[:-1])).any():
        raise UnfitError("damaged, a worker has an iteration twice")
    if len(np.unique(ranks)) * len(np.unique(iterations)) > parquet.UNPACKED * len(ordered) + parquet.FREE_BYTES:
        raise UnfitError(f"damaged, {len(ordered):,} samples are of too many workers and iterations")
    return ordered
