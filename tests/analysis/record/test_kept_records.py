"""Records of the version before one model declared them: each is read as that version read it, and has the same row.

``kept/`` is a run directory with trimmed records of real trials, one of each sort. ``kept/loaded.json`` has what that
version made of them, by attribute, and ``kept/results.csv`` its table. A field that is added changes neither.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.record.columns import of_every_run
from testbed.analysis.record.fields import blank_of
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.schema import RECORD
from testbed.execution import results
from testbed.files.shape import Kind, Shape, check
from tests.record_faults import faults

KEPT = Path(__file__).with_name("kept")
LOADED = json.loads((KEPT / "loaded.json").read_text())
RECORDS = {path.stem: json.loads(path.read_text()) for path in sorted((KEPT / "trials").glob("*.json"))}
BOUNDS = dict(line.split(": ", 1) for line in (KEPT / "bounds.txt").read_text().splitlines())


def shown(value: object) -> Any:
    """A loaded value as JSON, where None, whole numbers and floats, lists and tuples are told apart."""
    if is_dataclass(value):
        left_out = ("samples", "kind", "stored")
        return {field.name: shown(getattr(value, field.name)) for field in fields(value) if field.name not in left_out}
    if isinstance(value, Mapping):
        return {str(key): shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(shown, value)]
    return repr(value)


def lacking(before: Any, now: Any, path: str = "") -> list[str]:
    """Where what was read before is not what is read now; what is added since does not count."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [line for key, inner in before.items() for line in lacking(inner, now.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [line for i, inner in enumerate(before) for line in lacking(inner, now[i], f"{path}[{i}]")]
    return [] if before == now else [f"{path}: {before!r}, now {now!r}"]


def test_there_is_one_of_each_sort() -> None:
    assert {"forest", "script", "command", "hybrid", "fabric"} <= {record.get("moves") for record in RECORDS.values()}
    assert {record["status"] for record in RECORDS.values()} == {"done", "failed"}
    assert any(record.get("jobs") for record in RECORDS.values())
    assert any(record["failover"] for record in RECORDS.values())


def test_they_are_read_as_before() -> None:
    run = load(KEPT, samples=False)
    assert [trial.id for trial in run.trials] == [*LOADED]
    now = {trial.id: shown(trial) | {"kind": trial.kind.name} for trial in run.trials}
    assert lacking(LOADED, now) == []


def test_their_rows_are_the_same(tmp_path: Path) -> None:
    """Columns that are added since are left out."""
    results.save_csv(tmp_path / "results.csv", RECORDS.values())
    with (tmp_path / "results.csv").open(newline="") as now, (KEPT / "results.csv").open(newline="") as before:
        rows, (names, *others) = list(csv.DictReader(now)), list(csv.reader(before))
    columns = [name for name in rows[0] if name in names]
    assert columns == names
    assert [[row[name] for name in columns] for row in rows] == others


def test_records_begin_as_they_did() -> None:
    """Their keys are in the same order, and a trial that failed has what it began with."""
    blank = blank_of(TrialRecord, {})
    for name in ("forest", "asynchronous", "fabric", "hybrid", "jobs", "killed"):
        assert [key for key in RECORDS[name] if key in blank] == [*blank], name
    of_job = blank_of(TrialRecord, {}, of_job=True)
    for job in RECORDS["jobs"]["jobs"]:
        assert [key for key in job if key in of_job] == [key for key in of_job if key != "by_perturb"]  # added since
    failed = {key: value for key, value in RECORDS["failed"].items() if key in blank}
    assert failed == blank | {"error": failed["error"], "links_settings": failed["links_settings"]}


@pytest.mark.parametrize("name", RECORDS)
def test_all_that_they_have_is_declared(name: str) -> None:
    assert faults(RECORDS[name]) == []


def test_no_two_fields_have_the_same_column() -> None:
    places = [field.more["column"] for field in of_every_run().values() if "column" in field.more]
    assert len(set(places)) == len(places)
    assert max(places) < len(of_every_run())


WRONG: tuple[Any, ...] = (True, -1, 1.5, 0, "x", [], {}, [None], {"a": 1}, "x" * (2**20 + 1))


def kinds(shape: Shape, path: str = "") -> dict[str, Kind]:
    """By path, the kind that a shape asks for."""
    if isinstance(shape, Kind):
        return {path: shape}
    if isinstance(shape, Mapping):
        return {name: kind for key, inner in shape.items() for name, kind in kinds(inner, f"{path}.{key}").items()}
    assert isinstance(shape, list)
    return kinds(shape[0], f"{path}[]")


def placed(path: list[str], value: object) -> object:
    """JSON that has the value at a path."""
    if not path:
        return value
    *first, last = path
    return placed(first, [value] if last == "[]" else {last.replace("*", "any"): value})


def test_readers_hold_records_against_the_same_bounds() -> None:
    """Each bound that there was is there, and refuses what it says."""
    now = {path.strip("."): kind for path, kind in kinds(RECORD).items()}
    assert {path: now[path].name if path in now else None for path in BOUNDS} == BOUNDS
    for path in BOUNDS:
        for value in WRONG:
            record = placed(path.replace("[]", ".[]").split("."), value)
            if now[path].has(value):
                check(record, RECORD)
            else:
                with pytest.raises(ValueError, match=", no "):
                    check(record, RECORD)
