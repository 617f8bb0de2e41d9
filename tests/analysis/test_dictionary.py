"""Every field is defined, and a record that has another, or one of another kind, is found."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from testbed.analysis import dictionary
from tests.record_faults import faults


def test_a_made_up_run_has_only_what_is_defined(quickstart: Path) -> None:
    for path in sorted((quickstart / "trials").glob("*.json")):
        assert faults(json.loads(path.read_text())) == []
    for path in sorted((quickstart / "samples").glob("*.parquet")):
        assert set(pd.read_parquet(path)) <= set(dictionary.SAMPLES)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"jct": 1.0}, "jct: no such field"),
        ({"metrics": {"jct_ms": 1.0}}, "metrics.jct_ms: no such field"),
        ({"links": [{"bytes": 1}, {"bytes": 1.5}]}, "links[].bytes is 1.5, no whole number from 0 on"),
        ({"fidelity": {"numbers": {"gst": {"error": "1 %"}}}}, "fidelity.numbers.*.error is '1 %', no finite number"),
        ({"point": {"links.rate": [1]}}, "point.*[]: no such field"),
        ({"fidelitee": None}, "fidelitee: no such field"),
    ],
)
def test_what_is_not_defined_is_found(record: object, fault: str) -> None:
    assert faults(record) == [fault]


def test_what_is_not_known_may_be_null() -> None:
    assert faults({"metrics": None, "error": None, "point": {"links.rate": 5}, "links": []}) == []


@pytest.mark.parametrize("file", dictionary.FILES)
def test_times_rates_and_bytes_have_the_unit_of_their_name(file: str) -> None:
    units = {"_s": "s", "_bps": "bit/s", "_sps": "samples/s", "bytes": "B"}
    for name, field in dictionary.FILES[file][1].items():
        for ending, unit in units.items():
            if name.endswith(ending):
                assert field.unit == unit, name
