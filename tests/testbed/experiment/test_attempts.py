"""Trials that are INVALID only because of the machine are measured again: which, when, and what is told of it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from testbed import fidelity
from testbed.analysis.load import load
from testbed.analysis.report import text as report_text
from testbed.comparison import closing_table
from testbed.comparison.merge import merged
from testbed.execution.results import attempt_count
from testbed.experiment import progress
from testbed.experiment.attempts import WANTED, Patience, causes, disturbed, joined
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment
from testbed.spec import Source
from testbed.trial.model import Trial

from ..conftest import SPEC, Called
from ..fake_lab import FakeLab
from ..runner import STEAL, Disturbed, go, in_memory
from ..sweeps import UNTIL, Made, records, source
from .test_progress import Terminal

TWICE = SPEC.replace("retries: 0", "retries: 2") + "repeats: 2\n"
RING = "ring-b2-r1"


class Machine:
    """Disturbs the first so many attempts of trials, by their ids."""

    def __init__(self, **times: int) -> None:
        self.times = {name.replace("_", "-"): count for name, count in times.items()}
        self.made: Counter[str] = Counter()

    def __call__(self, trial: Trial) -> float:
        self.made[trial.id] += 1
        gst_s = 1.0 + self.made[trial.id] / 100
        return Disturbed(gst_s) if self.made[trial.id] <= self.times.get(trial.id, 0) else gst_s


def check(name: str, ok: bool, machine: bool = False) -> dict:
    found = {"name": name, "ok": ok, "value": 0.5, "limit": 0.95, "unit": "", "detail": "as it was"}
    return {**found, "machine": machine}


@pytest.mark.parametrize(
    ("failed", "only"),
    [
        ([STEAL], True),
        ([STEAL, check("run queue", ok=False, machine=True), check("timers", ok=False, machine=True)], True),
        ([check("link rate", ok=False, machine=True)], True),
        ([check("link rate", ok=False)], False),
        ([STEAL, check("lower bound", ok=False)], False),
        ([check("bytes on the wire", ok=False)], False),
        ([check("read back", ok=False)], False),
        ([check("events", ok=False)], False),
        ([], False),
    ],
    ids=["steal", "several", "slow", "fast", "bound", "bytes", "read back", "events", "nothing"],
)
def test_only_what_the_machine_did_is_a_reason(failed: list[dict], only: bool) -> None:
    judged = {"verdict": "INVALID", "checks": [check("delay", ok=True), *failed]}
    assert fidelity.only_the_machine(judged) is only
    assert disturbed({"status": "done", "fidelity": judged}) is only
    assert not disturbed({"status": "failed", "fidelity": None})
    assert not fidelity.only_the_machine(judged | {"verdict": "VALID"})  # certified
    assert not fidelity.only_the_machine(judged | {"verdict": "UNWATCHED"})  # to measure again would not help


def test_they_are_measured_again_at_the_end_of_their_round(made_up: Made, tmp_path: Path) -> None:
    machine = Machine(ring_b2_r1=1, PS_b2_r2=5)
    ran = made_up(machine)
    done = go(Experiment.new(source(TWICE), tmp_path / "run", in_memory))
    ps, ring = "PS-b2", "ring-b2"
    assert ran.ids == [f"{ps}-r1", f"{ring}-r1", f"{ring}-r1", f"{ring}-r2", f"{ps}-r2", f"{ps}-r2", f"{ps}-r2"]
    found = records(tmp_path / "run")
    assert {one: (len(r["attempts"]), r["fidelity"]["verdict"]) for one, r in found.items()} == {
        f"{ps}-r1": (0, "VALID"),
        f"{ring}-r1": (1, "VALID"),
        f"{ring}-r2": (0, "VALID"),
        f"{ps}-r2": (2, "INVALID"),
    }
    (first,) = found[RING]["attempts"]
    assert (first["verdict"], first["reasons"]) == ("INVALID", ["CPU steal: 20.0% taken"])
    assert (first["metrics"]["gst_median_s"], found[RING]["metrics"]["gst_median_s"]) == (1.01, 1.02)
    assert (first["started"] < found[RING]["started"], first["duration_s"]) == (True, 0.01)
    assert pd.read_parquet(tmp_path / "run" / "samples" / f"{RING}.parquet")["sum_s"].min() == pytest.approx(1.02)
    rows = {row["trial"]: row["attempts"] for row in csv.DictReader((tmp_path / "run" / "results.csv").open())}
    assert rows == {f"{ps}-r1": "1", f"{ring}-r1": "2", f"{ring}-r2": "1", f"{ps}-r2": "3"}
    assert len(done.records) == 4
    assert not done.failed


@pytest.mark.parametrize("gst_s", [-1.0, float("nan")], ids=["INVALID for what it measured", "FAILED"])
def test_others_are_not(made_up: Made, tmp_path: Path, gst_s: float) -> None:
    ran = made_up(lambda _: gst_s)
    go(Experiment.new(source(TWICE), tmp_path / "run", in_memory))
    assert len(ran.ids) == 4


def test_an_attempt_that_fails_fails_the_trial(made_up: Made, tmp_path: Path) -> None:
    """A scheme that crashes at times must not seem to run."""
    machine = Machine(ring_b2_r1=1)
    made_up(lambda trial: float("nan") if machine(trial) == 1.02 else 1.0 if trial.id != RING else Disturbed(1.0))
    run = go(Experiment.new(source(TWICE), tmp_path / "run", in_memory))
    record = records(tmp_path / "run")[RING]
    assert run.failed
    assert (record["status"], len(record["attempts"])) == ("failed", 1)
    made_up()
    go(Experiment.resumed(tmp_path / "run", None, in_memory))
    record = records(tmp_path / "run")[RING]
    assert (record["status"], len(record["attempts"])) == ("done", 1)


def test_a_run_that_was_cut_off_between_attempts_goes_on_as_it_would_have(made_up: Made, tmp_path: Path) -> None:
    times = {"PS_b2_r1": 1, "ring_b2_r1": 3, "PS_b2_r2": 2}
    whole = made_up(Machine(**times))
    go(Experiment.new(source(TWICE), tmp_path / "whole", in_memory))
    assert len(whole.ids) == 2 + 3 + 1 + 3
    for after in (3, 4, 6, 8):
        out, machine = tmp_path / f"cut{after}", Machine(**times)
        first = made_up(machine, stop_after=after)
        experiment = Experiment.new(source(TWICE), out, in_memory)
        with pytest.raises(KeyboardInterrupt):
            go(experiment)
        second = made_up(machine)
        go(Experiment.resumed(out, None, in_memory))
        assert first.ids + second.ids == whole.ids
        assert [len(one["attempts"]) for one in records(out).values()] == [
            len(records(tmp_path / "whole")[trial]["attempts"]) for trial in records(out)
        ]


TIMERS = {**STEAL, "name": "timers", "detail": "late"}
BYTES = {**STEAL, "name": "bytes on the wire", "machine": False}


def judged(gst: str = "", jct: str = "", *, started: str = "1", gst_s: float = 1.0) -> dict[str, Any]:
    """A record whose numbers are spoilt by these checks, none if they are VALID."""
    checks = [known for known in (STEAL, TIMERS, BYTES) if known["name"] in (gst, jct)]
    numbers = {
        name: {"verdict": "INVALID" if by else "VALID", "spoilt_by": [by] if by else []}
        for name, by in {"gst": gst, "jct": jct, "throughput": jct}.items()
    }
    return {
        "status": "done",
        "started": started,
        "duration_s": 1.0,
        "metrics": {"gst_median_s": gst_s, "jct_s": 2 * gst_s, "throughput_sps": 1 / gst_s, "gst_p95_s": gst_s},
        "fidelity": {"verdict": "INVALID" if gst or jct else "VALID", "checks": checks, "numbers": numbers},
    }


@pytest.mark.parametrize(
    ("gst", "jct", "wanted", "found"),
    [
        ("", "", WANTED, set()),
        ("", "CPU steal", WANTED, {"CPU steal"}),
        ("", "CPU steal", ("gst",), set()),
        ("CPU steal", "", ("gst",), {"CPU steal"}),
        ("bytes on the wire", "CPU steal", WANTED, {"CPU steal"}),
        ("bytes on the wire", "", WANTED, set()),
        ("CPU steal", "timers", WANTED, {"CPU steal", "timers"}),
    ],
)
def test_a_trial_is_measured_again_for_numbers_that_are_wanted(
    gst: str, jct: str, wanted: tuple[str, ...], found: set[str]
) -> None:
    assert causes(judged(gst, jct), wanted) == found
    assert disturbed(judged(gst, jct), wanted) is bool(found)


def test_no_later_attempt_takes_a_valid_number_away() -> None:
    """GST is VALID at first, and JCT at the third attempt, in which GST is not."""
    record, is_new = joined(None, judged("", "timers", started="1", gst_s=1.0))
    assert is_new
    for started, gst_s, gst, jct in (("2", 1.1, "timers", "timers"), ("3", 1.2, "CPU steal", "")):
        record, is_new = joined(record, judged(gst, jct, started=started, gst_s=gst_s))
        assert not is_new  # the samples are still those of the first
    assert (record["started"], record["fidelity"]["verdict"]) == ("1", "VALID")
    assert record["metrics"] == {"gst_median_s": 1.0, "jct_s": 2.4, "throughput_sps": 1 / 1.2, "gst_p95_s": 1.0}
    assert record["fidelity"]["numbers"]["jct"]["from"] == "3"
    assert [one["started"] for one in record["attempts"]] == ["2", "3"]
    assert record["attempts"][1]["numbers"] == {"gst": "INVALID", "jct": "VALID", "throughput": "VALID"}


def test_samples_are_those_of_the_attempt_that_gst_is_from() -> None:
    """JCT is VALID at first, and stays what it was when a later attempt brings GST."""
    record, _ = joined(None, judged("timers", "", started="1", gst_s=1.0))
    record, is_new = joined(record, judged("", "", started="2", gst_s=1.1))
    assert is_new
    assert (record["started"], record["metrics"]["gst_median_s"], record["metrics"]["jct_s"]) == ("2", 1.1, 2.0)
    assert record["fidelity"]["numbers"]["jct"]["from"] == "1"


def test_jct_and_samples_a_second_are_of_one_attempt_where_one_of_them_is_valid_nowhere() -> None:
    first, second = judged("", "timers", started="1"), judged("CPU steal", "timers", started="2", gst_s=1.1)
    second["fidelity"]["numbers"]["throughput"] = {"verdict": "VALID", "spoilt_by": []}
    record, _ = joined(joined(None, first)[0], second)
    assert (record["metrics"]["jct_s"], record["metrics"]["throughput_sps"]) == (2.2, 1 / 1.1)
    assert (record["metrics"]["gst_median_s"], record["fidelity"]["numbers"]["jct"]["verdict"]) == (1.0, "INVALID")


@given(
    st.lists(st.tuples(*[st.sampled_from(["", "CPU steal", "timers"])] * 2, st.floats(0.5, 2)), min_size=1, max_size=5)
)
def test_each_number_is_that_of_the_first_attempt_in_which_it_is_valid(attempts: list[tuple[str, str, float]]) -> None:
    record: dict[str, Any] | None = None
    for number, (gst, jct, gst_s) in enumerate(attempts):
        record, _ = joined(record, judged(gst, jct, started=str(number), gst_s=gst_s))
    assert record is not None
    assert attempt_count(record) == len(attempts)
    for name, metric, place, factor in (("gst", "gst_median_s", 0, 1), ("jct", "jct_s", 1, 2)):
        valid = [attempt for attempt in attempts if not attempt[place]]
        assert (record["fidelity"]["numbers"][name]["verdict"] == "VALID") is bool(valid)
        if valid:
            assert record["metrics"][metric] == factor * valid[0][2]


def test_an_attempt_that_crashes_counts_whatever_was_valid_before() -> None:
    record, is_new = joined(judged(""), {"status": "failed", "started": "2"})
    assert (record["status"], is_new, len(record["attempts"])) == ("failed", True, 1)


def test_three_trials_in_a_row_that_fail_for_one_cause_end_it(
    made_up: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the four is measured once; after the third it is said once, and nothing is measured again."""
    ran = made_up(lambda _: Disturbed(1.0))
    spec = source(TWICE.replace("repeats: 2", ""), "workload.batch=[2, 4]")
    with Experiment.new(spec, tmp_path / "run", in_memory) as experiment:
        experiment.go(lambda left: progress.Lines(left, Console()))
    told = capsys.readouterr().out
    assert len(ran.ids) == len(set(ran.ids)) == 4
    assert told.count("nothing is measured again any more") == 1
    assert (
        "3 trials in a row are INVALID because of CPU steal: nothing is measured again any more\n"
        "  fix: wait until the host gives back the cores, or take another host; then testbed run --resume, or "
        "testbed run if you change the spec\n"
    ) in told


def test_where_nothing_would_be_measured_again_nothing_is_said_of_it(
    made_up: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up(lambda _: Disturbed(1.0))
    with Experiment.new(source(TWICE, "retries=0", "workload.batch=[2, 4]"), tmp_path / "run", in_memory) as experiment:
        experiment.go(lambda left: progress.Lines(left, Console()))
    told = capsys.readouterr().out
    assert "INVALID (CPU steal" in told
    assert "nothing is measured again" not in told


@pytest.mark.parametrize(
    ("found", "lost_by"),
    [
        ([("a", {"x"}), ("b", {"x"}), ("c", {"x"})], "x"),
        ([("a", {"x"}), ("b", {"x", "y"}), ("c", {"y", "x"}), ("d", set())], "x"),
        ([("a", {"x"}), ("b", {"x"}), ("c", {"y"})], ""),
        ([("a", {"x"}), ("b", {"x"}), ("c", set()), ("d", {"x"})], ""),
        ([("a", {"x"}), ("a", {"x"}), ("a", {"x"})], ""),
        ([("a", {"y"}), ("b", {"x"}), ("c", {"x"}), ("d", {"x"})], "x"),
    ],
)
def test_patience(found: list[tuple[str, set[str]]], lost_by: str) -> None:
    patience = Patience()
    for trial, spoilt_by in found:
        patience.note(trial, frozenset(spoilt_by))
    assert patience.lost_by == lost_by


def test_repeating_until_it_is_enough_waits_for_them(made_up: Made, tmp_path: Path) -> None:
    """What is measured again counts in its own round, so no more rounds are needed."""
    machine = Machine(ring_b2_r3=1, PS_b2_r3=2)
    ran = made_up(lambda trial: type(machine(trial))(1.0))
    go(Experiment.new(source(UNTIL, "retries=2"), tmp_path / "run", in_memory))
    assert len(ran.ids) == 6 + 1 + 2


def test_more_may_be_allowed_later(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    machine = Machine(ring_b2_r1=4)
    made_up(machine)
    go(Experiment.new(source(TWICE), run, in_memory))
    assert machine.made[RING] == 3
    made_up(machine)
    go(Experiment.resumed(run, None, in_memory))
    assert machine.made[RING] == 3
    go(Experiment.resumed(run, source(TWICE.replace("retries: 2", "retries: 3")), in_memory))
    assert machine.made[RING] == 4
    go(Experiment.resumed(run, source(TWICE), in_memory, afresh=True))  # as testbed reproduce does
    assert machine.made[RING] == 5
    assert [one["metrics"]["gst_median_s"] for one in records(run)[RING]["attempts"]] == [1.01, 1.02, 1.03, 1.04]


def test_options_of_the_command_line(
    made_up: Made, testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.api import labs

    monkeypatch.setattr(labs, "opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(SPEC)
    machine = Machine(ring_b2=9)
    made_up(machine)
    first = testbed("run", "spec.yaml", "--out", "run", "--retries", "1", "--quiet", "0")
    assert first.code == 0
    lines = first.out.splitlines()
    assert lines[0].startswith("2 trials to run")
    reason = "INVALID (CPU steal: 20.0% taken)"
    assert [
        line.partition(":")[0] + ": ..., " + line.rpartition(", loss 1.00 to 1.00, ")[2] for line in lines[1:4]
    ] == [
        "[1/2] PS-b2: ..., VALID",
        f"[2/2] ring-b2: ..., {reason}; will be measured again",
        f"[2/2, again] ring-b2: ..., {reason}, measured 2 times",
    ]
    assert lines[5].split()[-2:] == ["attempts", "verdict"]
    assert [line.split()[-2:] for line in lines[6:8]] == [["1", "VALID"], ["2", "INVALID"]]
    again = testbed("run", "--resume", "run", "--retries", "2")
    assert (again.code, machine.made["ring-b2"]) == (0, 3)
    resolved = json.loads((tmp_path / "run" / "resolved.json").read_text())
    assert (resolved["retries"], resolved["quiet_s"], resolved["overrides"][-1]) == (2, 0.0, "retries=2")
    assert testbed("run", "--resume", "run").code == 0
    assert machine.made["ring-b2"] == 3
    refused = testbed("run", "spec.yaml", "--out", "other", "--quiet", "5")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: --set or --quiet: quiet: 5 has no unit")


def test_parts_may_differ_in_how_patient_they_were(made_up: Made, tmp_path: Path) -> None:
    found = []
    for number, retries in ((1, 0), (2, 1)):
        made_up(Machine(ring_b4_r1=1, ring_b2_r1=1))
        spec = source(TWICE, f"retries={retries}", "workload.batch=[2, 4]")
        found.append(tmp_path / str(number))
        go(Experiment.new(spec, found[-1], in_memory, (number, 2)))
    done = merged(found, tmp_path / "all")
    assert sorted(len(one["attempts"]) for one in done.run.records) == [0] * 7 + [1]
    assert done.missing == []


def test_a_report_says_what_was_measured_again(made_up: Made, tmp_path: Path) -> None:
    made_up(Machine(ring_b2_r1=1, PS_b2_r2=9))
    go(Experiment.new(source(TWICE), tmp_path / "run", in_memory))
    run = load(tmp_path / "run")
    assert {trial.id: trial.attempts for trial in run.trials if trial.earlier} == {RING: 2, "PS-b2-r2": 3}
    told = report_text([tmp_path / "run"], "md")
    assert "2 were measured again because of the machine, 7 attempts in all." in told
    assert told.index("\n| Arm |") < told.index("## Trials that were measured again")
    assert (
        "- ring (repeat 1) at batch 2: VALID at attempt 2. GST 1.01 s, 1.010 of its bound, JCT 2.02 s, "
        "INVALID: CPU steal" in told
    )
    page = report_text([tmp_path / "run"], "html")
    assert '<section id="again">' in page
    for path in (tmp_path / "run" / "trials").iterdir():  # as an older version would have left it
        record = json.loads(path.read_text())
        del record["attempts"], record["waited"]
        path.write_text(json.dumps(record))
    assert "measured again" not in report_text([tmp_path / "run"], "md")


def test_a_terminal_shows_for_what_it_waits_and_how_often_it_measured(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    trial, _ = trials(source)
    waits, runs = Terminal(), Terminal()
    with progress.reporter([trial], Console(file=waits, width=100, force_terminal=True)) as live:
        live.waiting("waiting for other programs to leave the cores: 35% busy")
    with progress.reporter([trial], Console(file=runs, width=100, force_terminal=True)) as live:
        live.started(trial, "measured again (2 of 3)")
        live.advanced(1)
    assert "35% busy" in waits.getvalue()
    assert f"{trial.id}, measured again (2 of 3)" in runs.getvalue()
    assert "1/3" in runs.getvalue()


def test_the_table_has_attempts_only_where_some_were_needed(made_up: Made, tmp_path: Path) -> None:
    made_up(Machine(ring_b2_r1=1))
    run = go(Experiment.new(source(TWICE), tmp_path / "run", in_memory))
    header, rows = closing_table.table(run.records, "PS")
    column = header.index(closing_table.ATTEMPTS)
    assert [row[column] for row in rows] == ["2 for 2", "3 for 2"]
    calm = [record | {"attempts": []} for record in run.records]
    assert closing_table.ATTEMPTS not in closing_table.table(calm, "PS")[0]
