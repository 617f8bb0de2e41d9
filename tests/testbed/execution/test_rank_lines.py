"""Lines that ranks write are checked before anything is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import TrialError
from testbed.execution import rank_lines

HELLO = {"kind": "hello", "rank": 1, "node": 1, "name": "h1", "congestion_control": "reno", "time": 5.0}
CALL = {
    **{"kind": "call", "seq": 0, "group": 0, "op": "allreduce", "dtype": "float32", "bytes": 400, "by": "scheme"},
    **{"asked_s": 6.0, "begun_s": 6.0, "done_s": 6.5, "waited_s": 0.1, "ranks": 2},
}
DONE = {"kind": "done", "max_rss_bytes": 1000}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "rows"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_what_a_rank_tells_is_read_whole(tmp_path: Path) -> None:
    more = [
        {"kind": "mark", "iteration": 0, "time": 7.0},
        {"kind": "log", "iteration": 0, "time": 6.9, "values": {"loss": 1.5, "odd": float("nan")}},
        {"kind": "group", "group": 3, "ranks": [0, 1], "by": "ring"},
        {"kind": "check", "group": 0, "seq": 0, "dtype": "float32", "largest_relative": 1e-7},
        {"kind": "nonfinite", "group": 0, "seq": 0, "where": "sum", "count": 4},
        {"kind": "failed", "group": 3, "op": "barrier", "time": 9.0, "error": "no \x1b[1m\nroom" + 400 * "."},
        {"kind": "failed", "group": 0, "op": "allreduce", "seq": 4, "time": 8.0, "error": "late"},
        {"kind": "shape", "anything": [1]},
    ]
    lines = rank_lines.read(written(tmp_path, HELLO, CALL, *more, DONE))
    assert lines[-1]["wire_bytes"] is None
    rows = rank_lines.rows(lines, 1, 1)
    assert rows is not None
    assert (rows.met_s, rows.marks_s, rows.groups) == (5.0, [7.0], {3: (0, 1)})
    assert rows.slow_rows_of is None
    assert (rows.calls[0].nbytes, rows.calls[0].waited_s, rows.calls[0].root) == (400, 0.1, None)
    assert rows.logged[0].values["loss"] == 1.5
    assert rows.compared[0].largest == 1e-7
    assert rows.nonfinite == [(0, 0, "sum")]
    assert [(one.rank, one.name) for one in rows.failed] == [(1, "allreduce 4 of group 0"), (1, "barrier of group 3")]
    assert rows.failed[1].why.startswith("no \\x1b[1m room...")
    assert len(rows.failed[1].why) < 310


def test_a_rank_whose_rows_python_made_says_for_which_pytorch(tmp_path: Path) -> None:
    for slow, of in ((True, "2.12.1"), (False, None)):
        lines = rank_lines.read(written(tmp_path, {**HELLO, "torch": "2.12.1", "slow_rows": slow}, DONE))
        rows = rank_lines.rows(lines, 1, 1)
        assert rows is not None
        assert rows.slow_rows_of == of


def test_a_rank_that_made_no_group_told_nothing(tmp_path: Path) -> None:
    assert rank_lines.rows(rank_lines.read(tmp_path / "nothing"), 0, 0) is None


def test_a_rank_whose_last_lines_are_missing_is_told(tmp_path: Path) -> None:
    for lines in ([], [HELLO, CALL, DONE]):
        rank_lines.check_end(rank_lines.read(written(tmp_path, *lines)), "h1")
    with pytest.raises(TrialError) as caught:
        rank_lines.check_end(rank_lines.read(written(tmp_path, HELLO, CALL)), "h1")
    assert str(caught.value) == (
        "the rank on h1 ended without its last collectives being told\n"
        "  fix: let the process that makes the process group end by itself: os._exit() and os.exec...() skip what "
        "Python does at its end"
    )


def test_an_error_of_a_rank_that_ended_well_counts(tmp_path: Path) -> None:
    told = {"kind": "error", "error": "sums could not be compared", "fix": "leave check out"}
    with pytest.raises(TrialError) as caught:
        rank_lines.check_end(rank_lines.read(written(tmp_path, HELLO, told, DONE)), "h1")
    assert str(caught.value) == "the rank on h1: sums could not be compared\n  fix: leave check out"


def test_another_ranks_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rank 1 wrote the file of rank 0"):
        rank_lines.rows(rank_lines.read(written(tmp_path, HELLO)), 0, 0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"kind": "begin"}, "no rank writes a line of the kind 'begin'"),
        ({**CALL, "op": "a" * 99}, "no word"),
        ({**CALL, "bytes": -1}, "no whole number from 0 on"),
        ({**CALL, "done_s": 1.0}, "before it was asked for"),
        ({**CALL, "waited_s": float("inf")}, "no span of time"),
        ({**CALL, "asked_s": float("nan")}, "no moment"),
        ({name: value for name, value in CALL.items() if name != "ranks"}, "a line of the kind call has no ranks"),
        ({"kind": "log", "time": 1.0, "values": {"loss": "x"}}, "no number"),
        ({"kind": "check", "group": 0, "seq": 0, "dtype": "float32", "largest_relative": -1}, "no ratio"),
        ({"kind": "check", "group": 0, "seq": 0, "dtype": "float32", "largest_relative": float("nan")}, "no ratio"),
        ({"kind": "group", "group": 1, "ranks": [[1]]}, "no whole number"),
    ],
)
def test_lines_that_ranks_do_not_write_are_named(line: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=told.replace("(", r"\(")):
        rank_lines.read(written(tmp_path, HELLO, line))
