"""Tables in Parquet: what is written can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.tables.parquet import numbers, packed
from testbed.files.foreign import UnfitError


@pytest.mark.parametrize("rows", [1, 200_000])
def test_a_table_whose_rows_are_alike_can_be_read_again(rows: int, tmp_path: Path) -> None:
    table = pd.DataFrame({"a": np.zeros(rows), "b": np.arange(rows) // 1000})
    (tmp_path / "a.parquet").write_bytes(packed(table))
    pd.testing.assert_frame_equal(numbers(tmp_path / "a.parquet", tmp_path, ["a"]), table)


def test_a_file_that_packs_more_than_that_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.zeros(10**6)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(UnfitError, match="more than a file of its size should"):
        numbers(tmp_path / "a.parquet", tmp_path, ["a"])
