"""Tables of transfers that somebody else wrote: checked before anything is made of them; and how well plans were
kept."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.load import load
from testbed.analysis.record.tables import Transfer, columns
from testbed.analysis.tables import trial
from testbed.base.errors import OutputError
from testbed.execution.results import transfers_table
from testbed.workloads.kinds.transfers import Carried, Purpose

UPDATE, SUM, WEIGHTS = Purpose.UPDATE, Purpose.SUM, Purpose.WEIGHTS
TOLD = (
    Carried(3, 0, WEIGHTS, 0, 100.0, 12.5, 13.5, None),
    Carried(0, 3, UPDATE, 1, 100.0, 10.0, 11.0, 11.02),
    Carried(1, 2, UPDATE, 1, 100.0, 10.0, 12.0, 11.5),
    Carried(2, 3, SUM, 2, 100.0, 11.0, 12.0, 12.1, 1),
)
TABLE = pd.DataFrame(
    {
        "from": [0, 1, 2, 3],
        "to": [3, 2, 3, 0],
        "purpose": [0, 0, 1, 2],
        "members": [1, 1, 2, 0],
        "size_bytes": 100.0,
        "start_s": [0.0, 0.0, 1.0, 2.5],
        "end_s": [1.0, 2.0, 2.0, 3.5],
        "arrived_s": [1.02, 1.5, 2.1, float("nan")],
        "shard": [0, 0, 1, 0],
    }
)


def test_what_a_kind_tells_is_a_table_by_time() -> None:
    found = transfers_table(TOLD, 10.0)
    assert found is not None
    pd.testing.assert_frame_equal(found, TABLE)
    assert tuple(found) == columns(Transfer)


def test_a_kind_that_plans_nothing_leaves_no_table_and_one_that_sent_nothing_an_empty_one() -> None:
    assert transfers_table(None, 0.0) is None
    nothing = transfers_table((), 0.0)
    assert nothing is not None
    assert (len(nothing), tuple(nothing)) == (0, columns(Transfer))
    assert {one.kind for one in nothing.dtypes} == {"i", "f"}  # as tables of others must have


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "transfers").mkdir()
    return tmp_path


def test_an_honest_table_is_read_by_time(folder: Path) -> None:
    shuffled = TABLE.sample(frac=1, random_state=1).assign(name="x")
    shuffled.to_parquet(folder / "transfers" / "one.parquet", index=False)
    found = trial.transfers(folder, "one")
    assert found is not None
    pd.testing.assert_frame_equal(found, TABLE)
    assert trial.transfers(folder, "another") is None


def test_an_empty_table_is_read(folder: Path) -> None:
    nothing = transfers_table((), 0.0)
    assert nothing is not None
    nothing.to_parquet(folder / "transfers" / "one.parquet", index=False)
    found = trial.transfers(folder, "one")
    assert found is not None
    assert (len(found), len(trial.late_shares(found)), trial.overtaken(found)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"from": -1}, "from has something else than numbers from 0 on"),
        ({"to": 0.5}, "to has something else than whole numbers"),
        ({"purpose": 9}, "a purpose is not 0 to 3"),
        ({"members": float("nan")}, "members has something else than numbers from 0 on"),
        ({"size_bytes": float("inf")}, "size_bytes has something else than numbers from 0 on"),
        ({"start_s": 1e300}, "start_s has something else than times"),
        ({"end_s": -5.0}, "a transfer was to end before it began"),
        ({"arrived_s": float("inf")}, "arrived_s has something else than times"),
        ({"arrived_s": "late"}, "the column 'arrived_s' is missing"),
    ],
)
def test_values_are_those_of_a_trial(folder: Path, values: dict[str, object], why: str) -> None:
    TABLE.assign(**values).to_parquet(folder / "transfers" / "one.parquet")
    with pytest.raises(OutputError) as error:
        trial.transfers(folder, "one")
    assert why in str(error.value)
    assert error.value.fix == f"rm -f {folder / 'transfers' / 'one.parquet'}; the report does without it"


def test_a_trial_reads_its_table_when_it_is_asked(run_dir: Path) -> None:
    (run_dir / "transfers").mkdir()
    TABLE.to_parquet(run_dir / "transfers" / "bml-b16.parquet", index=False)
    found = {one.id: one.transfers for one in load(run_dir).trials}
    assert [name for name, one in found.items() if one is not None] == ["bml-b16"]


def test_how_late_a_transfer_is_counts_in_its_own_time() -> None:
    assert trial.late_shares(TABLE).tolist() == pytest.approx([0.02, -0.25, 0.1])
    instant = TABLE.assign(end_s=TABLE["start_s"])
    assert trial.late_shares(instant).empty


def test_who_overtakes_is_counted_at_each_node_alone() -> None:
    kept = pd.DataFrame({"to": 3, "purpose": UPDATE, "end_s": [1.0, 2.0, 3.0], "arrived_s": [1.1, 2.0, 2.9]})
    assert trial.overtaken(kept) == 0
    assert trial.overtaken(kept.assign(arrived_s=[2.5, 2.0, 2.4])) == 2, "both were there before the first"
    assert trial.overtaken(kept.assign(arrived_s=[2.5, 2.0, 2.4], to=[1, 2, 3])) == 0
    assert trial.overtaken(kept.assign(arrived_s=[2.5, 2.0, 2.4], purpose=WEIGHTS)) == 0
    assert trial.overtaken(kept.assign(arrived_s=[2.5, 2.0, 2.4], end_s=1.0)) == 0, "planned for the same moment"
    assert trial.overtaken(kept.assign(arrived_s=[float("nan"), 2.0, 1.5])) == 1, "of the first nobody told"


MOMENT_S = st.integers(0, 4).map(float)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([UPDATE, WEIGHTS]), MOMENT_S, MOMENT_S), max_size=7))
def test_who_overtakes_is_as_by_looking_at_each_two(rows: list[tuple[int, Purpose, float, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["to", "purpose", "end_s", "arrived_s"])
    moved = [row for row in rows if row[1] != WEIGHTS]
    before = [
        (i, other)
        for (i, one), other in product(enumerate(moved), moved)
        if one[0] == other[0] and other[2] < one[2] and one[3] < other[3]
    ]
    found = frame.astype({"to": int, "purpose": int, "end_s": float, "arrived_s": float})
    assert trial.overtaken(found) == len({i for i, _ in before})


def test_many_transfers_are_read(folder: Path) -> None:
    """Moments hardly compress, the rest does: a table is never too small a file for its rows."""
    rows, random = np.arange(60_000), np.random.default_rng(1)
    starts_s = np.sort(random.uniform(0, 100, len(rows)))
    many = pd.DataFrame({"from": rows % 30, "to": 30, "purpose": 0, "members": 1, "size_bytes": 5e5, "shard": 0})
    many = many.assign(
        start_s=starts_s, end_s=starts_s + 0.1, arrived_s=starts_s + random.uniform(0.1, 0.11, len(rows))
    )
    many.to_parquet(folder / "transfers" / "one.parquet", index=False)
    found = trial.transfers(folder, "one")
    assert found is not None
    assert len(found) == len(rows)
