"""Traces keep the rules of the Trace Event Format, and show what was recorded."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis import chrome_trace
from testbed.analysis.chrome_trace import Span, trace
from testbed.analysis.record.happened import Event
from testbed.analysis.record.trial import Collective
from testbed.analysis.recorded import Trial
from testbed.base.errors import OutputError

NEEDED = {"X": {"dur", "cat", "args"}, "M": {"args"}, "i": {"s", "args"}}
"""Fields that an event needs beside ``ph``, ``pid``, ``tid``, ``ts`` and ``name``, by its phase."""


def check(told: dict[str, Any]) -> None:
    """Check what the format asks for, and that complete events of a row are within each other or apart."""
    rows = defaultdict(list)
    for event in told["traceEvents"]:
        assert {"ph", "pid", "tid", "ts", "name"} | NEEDED[event["ph"]] <= set(event)
        assert event["ts"] >= 0
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is type(event["tid"]) is int
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        open_us: list[float] = []
        for begin_us, end_us in sorted(spans, key=lambda one: (one[0], -one[1])):
            while open_us and open_us[-1] <= begin_us:
                open_us.pop()
            assert not open_us or end_us <= open_us[-1]
            open_us.append(end_us)


def recorded(samples: pd.DataFrame | None = None, calls: Sequence[Sequence[float]] = (), **more: Any) -> Trial:
    """A trial of which this is known; calls are (rank, kind, asked, came, done)."""
    trial = Trial(
        id="t", label="ring", topology="star(hosts=2)", scheme="ring", batch=1, iterations=1, world=2, done=True,
        samples=samples, **more,
    )  # fmt: skip
    table = pd.DataFrame(list(calls), columns=["rank", "kind", "asked_s", "came_s", "done_s"])
    trial.__dict__["calls"] = table.assign(group=0, sequence=range(len(table)), held_s=math.nan) if len(table) else None
    trial.__dict__["transfers"] = None
    return trial


SAMPLES = pd.DataFrame(
    {
        "rank": [0, 0, 1, 1],
        "iteration": [0, 1, 0, 1],
        "start_s": [0.0, 1.0, 0.0, 1.0],
        "ready_s": [0.4, 1.4, -0.1, 1.5],
        "sum_s": [0.9, 1.8, 0.9, 1.9],
        "end_s": [1.0, 2.0, 1.0, 2.0],
        "loss": [2.0, math.nan, 2.1, 1.9],
    }
)
ALLREDUCE = Collective(op="allreduce", dtype="float32", bytes=400, by="scheme", ranks=2, count=2, median_s=0.5)


def test_iterations_have_phases_and_collectives_their_chunks() -> None:
    calls = [(0, 0, -0.5, -0.4, -0.2), (0, 0, 0.4, 0.5, 0.9), (0, 0, 0.45, 0.6, 0.8), (1, 0, 0.5, math.nan, 0.9)]
    event = Event(kind="slow", what="h1 slower", planned_s=None, begun_s=1.5, done_s=1.6, error=None)
    told = trace(recorded(SAMPLES, calls, collectives=(ALLREDUCE,), events=(event,)))
    check(told)
    events = told["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert list(names.values()) == ["iterations", "collectives", "collectives 1", "iterations", "collectives"]
    ours = [one for one in events if one["ph"] == "X" and one["tid"] == one["pid"] == 0]
    first = [(one["name"], one["ts"], one["dur"]) for one in ours]
    assert first[:4] == [
        ("iteration 0", 500_000, 1_000_000),
        ("compute", 500_000, 400_000),
        ("wait for the sum", 900_000, 500_000),
        ("step", 1_400_000, 100_000),
    ]
    chunks = [(one["ts"], one["dur"]) for one in events if one["name"] == "chunks"]
    assert chunks == [(100_000, 200_000), (1_000_000, 400_000), (1_100_000, 200_000)]
    assert sum(one["name"] == "allreduce" for one in events) == 4
    (mark,) = [one for one in events if one["ph"] == "i"]
    assert (mark["name"], mark["ts"]) == ("h1 slower", 2_000_000)


def test_a_trial_that_left_nothing_and_one_that_left_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutputError, match="left nothing to draw"):
        trace(recorded())
    monkeypatch.setattr(chrome_trace, "MOST_EVENTS", 15)
    with pytest.raises(OutputError, match="has 16 events, and a trace may have 15"):
        trace(recorded(SAMPLES))


def test_a_table_that_names_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(OutputError, match="names a kind 1, which its JSON does not have"):
        trace(recorded(None, [(0, 1, 0.0, 0.1, 0.2)], collectives=(ALLREDUCE,)))


MOMENT = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(MOMENT, MOMENT).map(sorted), max_size=30))
def test_spans_of_a_row_are_apart(spans: list[list[float]]) -> None:
    rows = chrome_trace._lanes("row", [Span("a", "b", begin_s, end_s) for begin_s, end_s in spans])
    assert sorted((one.start_s, one.end_s) for row in rows.values() for one in row) == sorted(map(tuple, spans))
    for row in rows.values():
        assert all(before.end_s <= after.start_s for before, after in pairwise(row))


@given(st.lists(st.tuples(st.integers(0, 2), *[MOMENT] * 4), min_size=1, max_size=10))
def test_any_samples_make_a_trace_by_the_rules(rows: list[tuple[int, float, float, float, float]]) -> None:
    moments = ["start_s", "ready_s", "sum_s", "end_s"]
    table = pd.DataFrame(rows, columns=["rank", *moments]).assign(iteration=range(len(rows)), loss=math.nan)
    check(trace(recorded(table)))


def test_a_damaged_table_of_collectives_is_named(tmp_path: Path) -> None:
    from testbed.analysis.record.tables import CollectiveCall, columns
    from testbed.analysis.tables import trial

    (tmp_path / "collectives").mkdir()
    good = pd.DataFrame([[0, 0, 0, 0, 0.1, 0.2, 0.3, math.nan]], columns=list(columns(CollectiveCall)))
    good = good.astype(dict.fromkeys(columns(CollectiveCall)[:4], int))
    path = tmp_path / "collectives" / "t.parquet"
    good.to_parquet(path)
    assert trial.collectives(tmp_path, "t") is not None
    assert trial.collectives(tmp_path, "other") is None
    for change in ({"done_s": 0.0}, {"kind": -1}, {"asked_s": math.nan}, {"held_s": -1.0}):
        good.assign(**change).to_parquet(path)
        with pytest.raises(OutputError, match=r"t\.parquet: damaged"):
            trial.collectives(tmp_path, "t")
