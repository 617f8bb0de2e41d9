"""What a run tells while it goes, and the table at its end."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from testbed.cli import experiment
from testbed.comparison import closing_table
from testbed.control.feed import Feed
from testbed.evidence.spot_checks import Made, Readings
from testbed.execution.so_far import SoFar
from testbed.experiment import progress
from testbed.experiment.expand import trials
from testbed.experiment.run import Run
from testbed.spec import Source, read


class Terminal(io.StringIO):
    """A terminal that keeps what it was sent."""

    def isatty(self) -> bool:
        return True


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
        "duration_s": 0.0,
        "metrics": metrics,
        "loss": [2.5, 0.25],
        "accuracy": {"test_accuracy": 0.913},
        "fidelity": {"verdict": "VALID", "checks": []},
    }
    return done | changes


FAILED = {"status": "failed", "error": "the worker on h1 died\n    | last line\n  fix: read x.log", "metrics": None}


def test_a_plain_line_a_trial(source: Source) -> None:
    out = io.StringIO()
    first, second = trials(source)
    with progress.reporter([first, second], Console(file=out, width=40)) as lines:
        lines.started(first)
        lines.advanced(2)
        lines.finished(record(first.id, "PS", 12.0))
        lines.started(second)
        lines.finished(record(second.id, "ring", 6.0, **FAILED))
    assert out.getvalue().splitlines() == [
        "2 trials to run, about 10 s",
        "[1/2] PS-b2: GST 0.186 s (1.000 of its bound), JCT 12.0 s, 1234 samples/s, loss 2.50 to 0.25, VALID",
        "[2/2] ring-b2: FAILED: the worker on h1 died",
        "    | last line",
        "  fix: read x.log",
    ]


def _numbers(out: io.StringIO) -> list[str]:
    """What stands in brackets before each finished trial."""
    return re.findall(r"^\[(.*?)\]", out.getvalue(), re.MULTILINE)


def test_a_trial_keeps_its_number_in_each_attempt(source: Source) -> None:
    out = io.StringIO()
    first, second = trials(source)
    with progress.reporter([first, second], Console(file=out)) as lines:
        for trial, again in ((first, True), (second, True), (first, True), (second, False), (first, False)):
            lines.started(trial)
            lines.finished(record(trial.id, trial.label, 12.0), again=again)
    assert _numbers(out) == ["1/2", "2/2", "1/2, again", "2/2, again", "1/2, again"]


def test_that_a_trial_is_measured_again_stands_before_what_is_noted(source: Source) -> None:
    out = io.StringIO()
    trial = trials(source)[0]
    with progress.reporter([trial], Console(file=out)) as lines:
        lines.finished(record(trial.id, trial.label, 12.0, not_kept=["outputs: no rank wrote out/"]), again=True)
    _, line, noted = out.getvalue().splitlines()
    assert line.endswith("; will be measured again")
    assert noted == "    noted: outputs: no rank wrote out/"


def test_a_count_that_may_grow_says_so(source: Source) -> None:
    out = io.StringIO()
    first, second = trials(read(f"{source.text}repeats: {{until: 1%, most: 9}}\n", "spec.yaml", Path()))[:2]
    with progress.reporter([first], Console(file=out)) as lines:
        for trial in (first, second):
            lines.started(trial)
            lines.finished(record(trial.id, trial.label, 12.0))
            lines.added([second])
    assert _numbers(out) == ["1 of at least 1", "2 of at least 2"]


def test_who_was_lost_on_the_way_is_told() -> None:
    lost = {"losses": [{"node": "h1"}, {"node": "h3"}]}
    line = progress.sentence(record("a", "A", 1.0, failover=lost))
    assert line.endswith("loss 2.50 to 0.25, the others went on without h1, h3, VALID")


def test_the_setup_of_a_script_is_told_beside_its_jct() -> None:
    found = record("a", "A", 2.0)
    found["metrics"]["setup_s"] = 14.5
    assert ", JCT 2.00 s after 14.5 s of set-up, 1234 samples/s, " in progress.sentence(found)


def test_what_a_script_told_and_is_not_used_is_noted() -> None:
    line = progress.sentence(record("a", "A", 1.0, left_out=["losses of h1 are left out", "h2 printed none"]))
    assert line.splitlines()[1:] == ["    noted: losses of h1 are left out", "    noted: h2 printed none"]


def test_of_a_command_its_time_and_bytes_are_told() -> None:
    links = [{"bytes": 3 * 2**20}, {"bytes": 2**20}]
    done = record(
        "command-star2", "A", 12.0, kind="command", batch=0, metrics={"jct_s": 12.0}, accuracy=None, links=links
    )
    assert progress.sentence(done) == "command-star2: JCT 12.0 s, 4 MiB on all links, VALID"
    header, rows = closing_table.table([done, done | {"label": "B", "metrics": {"jct_s": 6.0}}], "A")
    assert header == [name for name in closing_table.HEADER if "accuracy" not in name]  # nothing was trained
    assert rows == [
        ["A", *["-"] * 6, "12.0 s", "-", "1.00x", "-", "VALID"],
        ["B", *["-"] * 6, "6.00 s", "-", "2.00x", "-", "VALID"],
    ]


def test_what_a_lab_does_not_count_is_left_out_of_a_commands_bytes() -> None:
    """A lab of machines counts no links between switches."""
    links = [{"bytes": 3 * 2**20}, {"bytes": None}]
    done = record(
        "command-star2", "A", 12.0, kind="command", batch=0, metrics={"jct_s": 12.0}, accuracy=None, links=links
    )
    assert progress.sentence(done) == "command-star2: JCT 12.0 s, 3 MiB on the links that are counted, VALID"


def test_a_trial_that_perturb_ended_is_not_to_be_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    done = [record("a", "A", 1.0), *(record(name, name, 1.0, **FAILED) for name in "bcd")]
    for one in done[1:3]:
        one["by_perturb"] = True
    experiment._print_comparison(Run(Path(), "A", done), "GO ON")
    told = capsys.readouterr().out.rstrip("\n").split("\n\n")[-2:]
    assert told == [
        "2 of 4 trials failed because of perturb, and would fail again: change the spec as their errors say",
        "1 of 4 trials failed; go on with:\n  GO ON",
    ]


def test_why_a_trial_is_invalid_is_said_at_once() -> None:
    check = {"name": "CPU headroom", "ok": False, "detail": "3% idle"}
    line = progress.sentence(record("a", "A", 1.0, fidelity={"verdict": "INVALID", "checks": [check]}))
    assert line.endswith(", INVALID (CPU headroom: 3% idle)")


STEAL = {"name": "CPU steal", "ok": False, "detail": "7.0% taken by the host", "machine": True}


def test_numbers_that_differ_in_their_verdict_are_told() -> None:
    spoilt = {"verdict": "INVALID", "error": 0.2, "spoilt_by": ["CPU steal"]}
    numbers = {"gst": {"verdict": "VALID", "error": 0.012, "certified": True, "spoilt_by": []}}
    numbers |= dict.fromkeys(("jct", "throughput", "iterations", "waiting"), spoilt)
    line = progress.sentence(
        record("a", "A", 1.0, fidelity={"verdict": "INVALID", "numbers": numbers, "checks": [STEAL]})
    )
    assert line.endswith(", GST VALID, JCT INVALID (CPU steal: 7.0% taken by the host)")


def test_what_failed_about_the_machine_is_told_of_certified_numbers() -> None:
    numbers = {
        name: {"verdict": "VALID", "error": error, "certified": True, "spoilt_by": []}
        for name, error in (("gst", 0.004), ("jct", 0.013))
    }
    line = progress.sentence(
        record("a", "A", 1.0, fidelity={"verdict": "VALID", "numbers": numbers, "checks": [STEAL]})
    )
    assert line.endswith(", VALID (certified within 1.3 %; noted: CPU steal: 7.0% taken by the host)")


def test_a_terminal_that_cannot_redraw_gets_plain_lines(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=Terminal(), force_terminal=True)
    assert type(progress.reporter(trials(source), console)) is progress.Lines


def test_a_file_gets_plain_lines_also_where_colours_are_forced(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as the kernel of a notebook does
    monkeypatch.setenv("TERM", "xterm-color")
    first, second = trials(source)
    out = io.StringIO()
    with progress.reporter([first, second], Console(file=out, width=40)) as lines:
        lines.started(first)
        lines.finished(record(first.id, "PS", 1.0))
    told, finished = out.getvalue().splitlines()
    assert told.startswith("2 trials to run")
    assert finished.startswith(f"[1/2] {first.id}: GST 0.186 s")


def test_a_terminal_shows_how_much_time_is_left(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    first, second = trials(source)
    out = Terminal()
    with progress.reporter([first, second], Console(file=out, width=100, force_terminal=True)) as live:
        assert isinstance(live, progress.Live)
        live.started(first)
        live.finished(record(first.id, "PS", 1.0))
        live.started(second)
        live.advanced(1)
    shown = out.getvalue()
    assert f"[1/2] {first.id}: GST" in shown
    assert f"{second.id} " in shown
    assert "1/3" in shown
    assert "about 0 s left" in shown  # the first took no time at all, so it is expected of the second


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_what_is_known_so_far(
    width: int, source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    trial, _ = trials(source)
    (tmp_path / "h0").write_text('{"kind": "iteration", "i": 0, "ready": 1.0, "sum": 1.186}\n')
    files = {"h0": tmp_path / "h0"}
    so_far = SoFar(Feed(files), Readings([Made(0.0, 0.1, 6)]), files, skip=0)
    out = Terminal()
    with progress.reporter([trial], Console(file=out, width=width, force_terminal=True)) as live:
        live.started(trial)
        live.advanced(1, so_far)
        assert isinstance(live, progress.Live)
        live._bars.refresh()
        live.finished(record(trial.id, "PS", 12.0, **FAILED))
    frames = re.split(r"[\r\n]|\x1b\[\d*[AK]", out.getvalue())
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).rstrip() for frame in frames]
    assert any("1/3, GST 0.186 s, links as asked so far" in line for line in lines)
    assert "0 of 1 trial " in out.getvalue()
    assert max(map(len, lines)) <= width


def test_trials_are_compared_with_the_first_arm_of_the_same_batch() -> None:
    _, rows = closing_table.table(
        [
            record("a", "PS", 12.0),
            record("b", "ring", 6.0),
            record("c", "PS", 30.0, batch=64),
            record("d", "ring", 20.0, batch=64),
            record("e", "BML", 1.0, **FAILED),
        ],
        "PS",
    )
    speed_up = closing_table.HEADER.index("speed-up")
    assert [row[speed_up] for row in rows] == ["1.00x", "2.00x", "1.00x", "1.50x", "-"]
    named = dict(zip(closing_table.HEADER, rows[0], strict=True))
    assert [named[name] for name in ("GST", "theory", "ratio")] == ["0.186 s", "0.186 s", "1.000"]
    assert [row[-1] for row in rows] == ["VALID"] * 4 + ["FAILED"]
    assert all(len(row) == len(closing_table.HEADER) for row in rows)


def test_where_the_first_arm_failed_there_is_no_speed_up() -> None:
    """The next arm is not silently made the one that others are compared with."""
    _, rows = closing_table.table([record("a", "PS", 12.0, **FAILED), record("b", "ring", 6.0)], "PS")
    assert rows[1][closing_table.HEADER.index("speed-up")] == "-"
    assert rows[1][-1] == "VALID"


def test_repeats_of_a_cell_are_one_row() -> None:
    def one(label: str, gst_s: float, jct_s: float, **changes: object) -> dict:
        found = record(label, label, jct_s, **changes)
        return found | {"metrics": found["metrics"] and {**found["metrics"], "gst_median_s": gst_s}}

    invalid = {"fidelity": {"verdict": "INVALID", "checks": []}}
    header, rows = closing_table.table(
        [
            *(one("PS", 0.1 * n, 10.0 * n, repeat=n) for n in (1, 2, 3)),
            *(one("ring", 0.1, 10.0, repeat=n, **changes) for n, changes in ((2, {}), (1, invalid), (3, FAILED))),
        ],
        "PS",
    )
    columns = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["arm"] for row in columns] == ["PS", "ring"]
    assert (columns[0]["GST"], columns[0]["±"], columns[0]["JCT"]) == ("0.200 s", "50.0%", "20.0 s")
    assert [row["verdict"] for row in columns] == ["VALID", "1 of 3 VALID"]
    assert columns[1]["speed-up"] == "2.00x"


def test_numbers_are_from_valid_trials_where_there_are_any() -> None:
    """As in the report: what is INVALID beside them says nothing."""
    invalid = {"fidelity": {"verdict": "INVALID", "checks": []}}
    header, rows = closing_table.table(
        [
            record("a", "PS", 12.0, repeat=0),
            record("b", "PS", 60.0, repeat=1, **invalid),
            record("c", "ring", 6.0, repeat=0, **invalid),
        ],
        "PS",
    )
    assert [row[header.index("JCT")] for row in rows] == ["12.0 s", "6.00 s"]
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "-"]
    assert [row[-1] for row in rows] == ["1 of 2 VALID", "INVALID"]


def test_points_are_told_apart_and_compared_at_equal_values() -> None:
    def one(label: str, jct_s: float, **point: object) -> dict:
        at = ", ".join(f"{name}={value}" for name, value in point.items())
        return record(label + at, label, jct_s, point=point, at=at)

    header, rows = closing_table.table(
        [
            *(one("ring", 10.0 * hosts, hosts=hosts) for hosts in (2, 4)),
            *(one("PS", 40.0, hosts=hosts, servers=servers) for hosts in (2, 4) for servers in (1, 2)),
            one("BML", 10.0, n=3),
        ],
        "ring",
    )
    found = [(row[header.index("at")], row[header.index("speed-up")]) for row in rows]
    assert found == [
        ("hosts=2", "1.00x"),
        ("hosts=4", "1.00x"),
        ("hosts=2, servers=1", "0.50x"),
        ("hosts=2, servers=2", "0.50x"),
        ("hosts=4, servers=1", "1.00x"),
        ("hosts=4, servers=2", "1.00x"),
        ("n=3", "-"),
    ]
