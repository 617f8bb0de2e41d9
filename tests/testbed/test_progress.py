"""What a run tells while it goes, and the table at its end."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from testbed import comparison, progress
from testbed.spec import Source
from testbed.trial import Trial
from testbed.trials import trials


def record(trial: str, label: str, jct_s: float, **changes: object) -> dict:
    """A finished trial, as far as people are told about it."""
    metrics = {
        "gst_median_s": 0.1861,
        "gst_theory_s": 0.186,
        "gst_ratio": 1.0005,
        "jct_s": jct_s,
        "throughput_sps": 1234.4,
    }
    done = {
        "id": trial,
        "label": label,
        "batch": 16,
        "status": "done",
        "error": None,
        "metrics": metrics,
        "loss": [2.5, 0.25],
        "accuracy": {"test_accuracy": 0.913},
        "fidelity": {"verdict": "VALID", "checks": []},
    }
    return done | changes


FAILED = {"status": "failed", "error": "the worker on h1 died\n    | last line\n  fix: read x.log", "metrics": None}


def test_a_plain_line_a_trial(trial: Trial) -> None:
    out = io.StringIO()
    with progress.reporter([trial, trial], Console(file=out, width=40)) as lines:
        lines.started(trial)
        lines.advanced(2)
        lines.finished(record("ps-b16", "PS", 12.0))
        lines.finished(record("ring-b16", "ring", 6.0, **FAILED))
    assert out.getvalue().splitlines() == [
        "[1/2] ps-b16: GST 0.186 s (1.000 of theory), JCT 12.0 s, 1234 samples/s, loss 2.50 to 0.25, VALID",
        "[2/2] ring-b16: FAILED: the worker on h1 died",
        "    | last line",
        "  fix: read x.log",
    ]


def test_of_a_command_its_time_and_bytes_are_told() -> None:
    links = [{"bytes": 3 * 2**20}, {"bytes": 2**20}]
    done = record("command-star2", "A", 12.0, kind="command", batch=0, metrics={"jct_s": 12.0}, links=links)
    assert progress.sentence(done) == "command-star2: JCT 12.0 s, 4 MiB on all links, VALID"
    assert comparison.rows([done, done | {"label": "B", "metrics": {"jct_s": 6.0}}]) == [
        ["A", "-", "-", "-", "-", "12.0 s", "-", "1.00x", "-", "VALID"],
        ["B", "-", "-", "-", "-", "6.00 s", "-", "2.00x", "-", "VALID"],
    ]


def test_why_a_trial_is_invalid_is_said_at_once() -> None:
    check = {"name": "CPU headroom", "ok": False, "detail": "3% idle"}
    line = progress.sentence(record("a", "A", 1.0, fidelity={"verdict": "INVALID", "checks": [check]}))
    assert line.endswith(", INVALID (CPU headroom: 3% idle)")


def test_a_terminal_that_cannot_redraw_gets_plain_lines(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), force_terminal=True)
    assert type(progress.reporter(trials(source), console)) is progress.Lines


def test_a_terminal_shows_how_much_time_is_left(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    first, second = trials(source)
    out = io.StringIO()
    with progress.reporter([first, second], Console(file=out, width=100, force_terminal=True)) as live:
        assert isinstance(live, progress.Live)
        live.started(first)
        live.finished(record(first.id, "PS", 1.0))
        live.started(second)
        live.advanced(1)
    shown = out.getvalue()
    assert f"[1/2] {first.id}: GST" in shown
    assert f"{second.id} 1/3" in shown
    assert "about 0 s left" in shown  # the first took no time at all, so it is expected of the second


def test_a_guess_is_the_theory_and_some_overhead(trial: Trial) -> None:
    assert trial.jct_theory_s is not None
    assert progress.expected_s(trial) == pytest.approx(trial.jct_theory_s + progress.OVERHEAD_S)


def test_trials_are_compared_with_the_first_arm_of_the_same_batch() -> None:
    rows = comparison.rows(
        [
            record("a", "PS", 12.0),
            record("b", "ring", 6.0),
            record("c", "PS", 30.0, batch=64),
            record("d", "ring", 20.0, batch=64),
            record("e", "BML", 1.0, **FAILED),
        ]
    )
    speed_up = comparison.HEADER.index("speed-up")
    assert [row[speed_up] for row in rows] == ["1.00x", "2.00x", "1.00x", "1.50x", "-"]
    assert rows[0][2:5] == ["0.186 s", "0.186 s", "1.000"]
    assert [row[-1] for row in rows] == ["VALID"] * 4 + ["FAILED"]
    assert all(len(row) == len(comparison.HEADER) for row in rows)


def test_where_the_first_arm_failed_there_is_no_speed_up() -> None:
    """The next arm is not silently made the one that others are compared with."""
    rows = comparison.rows([record("a", "PS", 12.0, **FAILED), record("b", "ring", 6.0)])
    assert rows[1][comparison.HEADER.index("speed-up")] == "-"
    assert rows[1][-1] == "VALID"
