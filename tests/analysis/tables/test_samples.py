"""Tables of samples that somebody else wrote: checked before they are unpacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.tables import trial
from testbed.files.foreign import UnfitError


@pytest.fixture
def table() -> pd.DataFrame:
    rank, iteration = (part.ravel() for part in np.meshgrid(range(3), range(4)))
    times = {"start_s": 1.0 * iteration, "ready_s": iteration + 0.2, "sum_s": iteration + 0.5, "end_s": iteration + 0.6}
    return pd.DataFrame({"rank": rank, "iteration": iteration, **times, "loss": 1.0, "late": True})


def refused(folder: Path, table: pd.DataFrame) -> str:
    path = folder / "s.parquet"
    table.to_parquet(path)
    with pytest.raises(UnfitError) as error:
        trial.samples(path, folder)
    return str(error.value)


def test_an_honest_table_is_read_as_it_is(tmp_path: Path, table: pd.DataFrame) -> None:
    table.sample(frac=1, random_state=1).to_parquet(tmp_path / "s.parquet", index=False)
    pd.testing.assert_frame_equal(trial.samples(tmp_path / "s.parquet", tmp_path), table)


def test_a_table_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "s.parquet"
    many = pd.DataFrame({name: np.zeros(3_000_000, np.int8) for name in table})
    many.to_parquet(path)
    assert path.stat().st_size < 500_000
    with pytest.raises(UnfitError, match="has 3,000,000 rows of 8 columns, more than a file of its size should"):
        trial.samples(path, tmp_path)


def test_what_is_no_number_is_left_packed(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "s.parquet"
    table.assign(name="h0", long="text" * 100_000, day=pd.Timestamp(0)).to_parquet(path)
    assert list(trial.samples(path, tmp_path)) == list(table)
    assert refused(tmp_path, table.drop(columns="sum_s")) == "damaged, the column 'sum_s' is missing"
    assert refused(tmp_path, table.assign(rank="0")) == "damaged, the column 'rank' is missing"


def test_values_are_those_of_a_trial(tmp_path: Path, table: pd.DataFrame) -> None:
    assert "rank has something else" in refused(tmp_path, table.assign(rank=-1))
    assert "iteration has something else" in refused(tmp_path, table.assign(iteration=0.5))
    assert "end_s has something else than times" in refused(tmp_path, table.assign(end_s=float("nan")))
    assert "start_s has something else than times" in refused(tmp_path, table.assign(start_s=1e300))
    assert "a worker has an iteration twice" in refused(tmp_path, pd.concat([table, table]))


def test_workers_times_iterations_are_bounded(tmp_path: Path, table: pd.DataFrame) -> None:
    each = np.arange(2000)
    many = pd.DataFrame({name: each if table[name].dtype.kind == "i" else 1.0 for name in table})
    assert "2,000 samples are of too many workers and iterations" in refused(tmp_path, many)
