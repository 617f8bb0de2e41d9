"""Tables of queues that somebody else wrote: checked before anything is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.load import load
from testbed.analysis.record.tables import Window, columns
from testbed.analysis.tables import trial
from testbed.base.errors import OutputError
from testbed.lab.netns.readings.queues import MOST_ROWS

TABLE = pd.DataFrame(
    {
        "link": [0, 2, 0],
        "start_s": [0.0, 0.0, 0.02],
        "window_s": 0.02,
        "most_bytes": [1000, 2000, 3000],
        "mean_bytes": [1000.0, 2000.0, 3000.0],
        "full_share": [0.0, 1.0, 0.5],
        "drops": [0, 7, 0],
        "marks": [0, 0, 3],
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queues").mkdir()
    return tmp_path


def refused(folder: Path, table: pd.DataFrame) -> str:
    table.to_parquet(folder / "queues" / "one.parquet")
    with pytest.raises(OutputError) as error:
        trial.queues(folder, "one")
    return str(error.value)


def test_an_honest_table_is_read_by_time_and_link(folder: Path) -> None:
    TABLE.sample(frac=1, random_state=1).assign(name="x").to_parquet(folder / "queues" / "one.parquet", index=False)
    found = trial.queues(folder, "one")
    assert found is not None
    pd.testing.assert_frame_equal(found, TABLE)
    assert trial.queues(folder, "another") is None


def test_queues_that_are_full_all_the_time_are_read(folder: Path) -> None:
    """Such a table is the smallest file for its rows."""
    links = 64
    rows = np.arange(MOST_ROWS)
    table = pd.DataFrame(dict.fromkeys(columns(Window), 1), index=rows).assign(link=rows % links)
    table = table.assign(start_s=(rows // links).astype(float))
    table.to_parquet(folder / "queues" / "one.parquet", index=False)
    found = trial.queues(folder, "one")
    assert found is not None
    assert len(found) == MOST_ROWS


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"link": -1}, "link has something else than numbers from 0 on"),
        ({"link": 0.5}, "link has something else than whole numbers"),
        ({"start_s": float("nan")}, "start_s has something else than numbers from 0 on"),
        ({"most_bytes": 1e300}, "most_bytes has something else"),
        ({"window_s": 0.0}, "a window has no length"),
        ({"full_share": 1.5}, "a share is above 1"),
        ({"drops": "many"}, "the column 'drops' is missing"),
    ],
)
def test_values_are_those_of_a_trial(folder: Path, values: dict[str, object], why: str) -> None:
    assert why in refused(folder, TABLE.assign(**values))


def test_a_damaged_table_is_named_and_can_be_removed(folder: Path) -> None:
    path = folder / "queues" / "one.parquet"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(OutputError, match="damaged, not Parquet") as error:
        trial.queues(folder, "one")
    assert error.value.fix == f"rm -f {path}; the report does without it"


def test_no_link_is_followed(folder: Path) -> None:
    TABLE.to_parquet(folder / "one.parquet", index=False)
    (folder / "queues" / "one.parquet").symlink_to(folder / "one.parquet")
    with pytest.raises(OutputError, match="link"):
        trial.queues(folder, "one")


def test_a_trial_reads_its_table_when_it_is_asked(run_dir: Path) -> None:
    (run_dir / "queues").mkdir()
    TABLE.to_parquet(run_dir / "queues" / "bml-b16.parquet", index=False)
    found = {one.id: one.queues for one in load(run_dir).trials}
    assert [name for name, table in found.items() if table is not None] == ["bml-b16"]
