"""Which columns of the closing table fit."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.comparison import HEADER, fitting, table

ROWS = [
    ["PS on fat-tree", "16", "0.983 s", "0.974 s", "1.009", "18.5 s", "109", "1.00x", "89.7%", "VALID"],
    ["BML on BCube", "16", "0.496 s", "0.487 s", "1.018", "11.5 s", "175", "1.60x", "89.7%", "INVALID"],
]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (200, set()),
        (80, {"theory"}),
        (60, {"theory", "accuracy", "samples/s"}),
        (10, {"theory", "accuracy", "samples/s", "speed-up", "JCT", "ratio"}),
    ],
)
def test_a_narrow_terminal_goes_without_the_least_needed(width: int, left_out: set[str]) -> None:
    shown = [HEADER[i] for i in fitting(HEADER, ROWS, width)]
    assert shown == [name for name in HEADER if name not in left_out]


def test_what_is_shown_fits() -> None:
    for width in range(40, 100):
        shown = fitting(HEADER, ROWS, width)
        widths = [min(12, max(len(row[i]) for row in [HEADER, *ROWS])) for i in shown]
        assert sum(widths) + len(widths) <= width


def test_columns_that_come_with_sweeps_and_repeats_go_in_turn() -> None:
    header = [*HEADER[:2], "at", HEADER[2], "±", *HEADER[3:]]
    rows = [[*row[:2], "rate=100 Mbit/s", row[2], "0.5%", *row[3:]] for row in ROWS]
    shown = [header[i] for i in fitting(header, rows, 70)]
    assert "at" in shown
    assert "±" not in shown
    assert shown[-1] == "verdict"


def record(label: str, repeat: int, **metrics: float) -> dict[str, Any]:
    """A finished trial's."""
    known = {"jct_s": 2.0, "gst_median_s": 0.1, "gst_theory_s": 0.1, "gst_ratio": 1.0, "throughput_sps": 10.0}
    rest = {"batch": 4, "repeat": repeat, "status": "done", "kind": "train", "accuracy": None}
    return {"label": label, "metrics": known | metrics, "fidelity": {"verdict": "VALID"}, **rest}


def test_staleness_has_a_column_where_an_arm_has_any() -> None:
    synchronous = [record("PS", repeat) for repeat in range(2)]
    assert "staleness" not in table(synchronous, "PS")[0]
    stale = [record("async", i, staleness_median=2.0 + i, staleness_max=7.0 + i) for i in range(2)]
    header, rows = table([*synchronous, *stale], "PS")
    at = header.index("staleness")
    assert [row[at] for row in rows] == ["-", "2.5, max 8"]
    assert [header[i] for i in fitting(header, rows, 60)][-1] == "verdict"


def judged(label: str, jct_s: float, *verdicts: str) -> list[dict[str, Any]]:
    """A trial a repeat."""
    made = [record(label, repeat, jct_s=jct_s) for repeat in range(len(verdicts))]
    return [one | {"fidelity": {"verdict": verdict}} for one, verdict in zip(made, verdicts, strict=True)]


@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        (["VALID", "INVALID"], ["VALID", "VALID"], ["1.00x", "2.00x"]),
        (["INVALID", "VALID"], ["VALID", "INVALID"], ["1.00x", "-"]),
        (["INVALID", "INVALID"], ["VALID", "INVALID"], ["1.00x", "-"]),
        (["VALID", "INVALID"], ["INVALID", "INVALID"], ["1.00x", "2.00x"]),
        (["INVALID", "INVALID"], ["INVALID", "INVALID"], ["1.00x", "2.00x"]),
    ],
)
def test_a_speed_up_is_of_trials_that_the_numbers_beside_it_are_from(
    first: list[str], other: list[str], shown: list[str]
) -> None:
    header, rows = table([*judged("PS", 4.0, *first), *judged("ring", 2.0, *other)], "PS")
    assert [row[header.index("speed-up")] for row in rows] == shown
