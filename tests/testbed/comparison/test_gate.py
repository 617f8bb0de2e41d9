"""The gate around a run: what it asks of the run before, what it measures again, what it leaves, and its options."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
import yaml
from rich.console import Console

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.compare import REPEATS
from testbed.analysis.comparing.measured import Measured, Side, read
from testbed.analysis.record.tables import Sample, columns
from testbed.base import exits
from testbed.base.errors import IncomparableError, OutputError, SpecError
from testbed.comparison import gate
from testbed.comparison.gate import Gate, make_baseline
from testbed.execution.execute import Outcome, blank_trial
from testbed.experiment.progress import Lines
from testbed.experiment.repeats import topped_up
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.spec import Source
from testbed.spec import read as read_spec
from testbed.trial.model import Trial

from ..conftest import SPEC, Called
from ..fake_lab import FakeLab
from ..runner import in_memory
from ..sides import write_side

SIX = SPEC + "repeats: 6\n"
PS, RING = Cell("PS", 2), Cell("ring", 2)


def announce(left: Sequence[Trial]) -> Lines:
    return Lines(left, Console(quiet=True))


Made = dict[str, dict[int, str]]


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Trials whose GST is 0.2 s and a little, and which do not run: VALID, but for those of arms' repeats that are
    given another verdict here."""
    made: Made = {}

    def execute(trial: Trial, *_: object) -> Outcome:
        gst_s = 0.2 + trial.repeat / 1000
        verdict = made.get(trial.cell.label, {}).get(trial.repeat, "VALID")
        if verdict == "FAILED":
            failed = {"started": f"2026-11-21T09:{trial.repeat:02d}:00", "error": "h0 died"}
            return Outcome(blank_trial(trial) | failed, None, {})
        metrics = {"gst_median_s": gst_s, "gst_theory_s": 0.2, "gst_ratio": 1.0, "jct_s": 1.0, "throughput_sps": 6.0}
        started = f"2026-11-21T09:{trial.repeat:02d}:00"
        done = {"status": "done", "started": started, "duration_s": 1.5, "metrics": metrics}
        sums = {"checked_elements": 1, "wrong_elements": 0}
        record = blank_trial(trial) | done | {"fidelity": {"verdict": verdict, "checks": []}, "sums": sums}
        moments = [(rank, i, i + 0.0, i + 0.5, i + 0.5 + gst_s, i + 0.9, 1.0) for i in range(3) for rank in range(3)]
        return Outcome(record, pd.DataFrame(moments, columns=list(columns(Sample, required=True))), {})

    monkeypatch.setattr("testbed.experiment.runner.execute", execute)
    return made


@pytest.fixture
def ran(tmp_path: Path, made_up: Made) -> tuple[Source, Path]:  # noqa: ARG001
    """A run of two arms, six times each."""
    source = read_spec(SIX, "spec.yaml", tmp_path)
    with Experiment.new(source, tmp_path / "run", in_memory) as experiment:
        return source, experiment.go(announce).path


def baseline(run: Path, **factors: float) -> Side:
    """The run as a baseline whose GSTs are those times the arm's factor."""
    whole = read(run)

    def changed(one: Measured) -> Measured:
        return replace(one, values={"gst": one.values["gst"] * factors.get(one.cell.label, 1.0)})

    return replace(whole, name="old", path=Path("old"), trials=tuple(map(changed, whole.trials)))


def test_what_looks_slower_is_measured_once_more_and_only_that_counts(ran: tuple[Source, Path]) -> None:
    """PS took a tenth of the time then, and ring ten times as long."""
    source, run = ran
    gate = Gate(baseline(run, PS=0.1, ring=10.0), {"gst": 0.03})
    labs: list[FakeLab] = []

    def open_runner() -> Here:
        labs.append(FakeLab())
        return Here(lambda: labs[-1])  # type: ignore[arg-type,return-value]

    found, failed = gate.settle(run, source, open_runner, announce)  # type: ignore[arg-type]
    assert not failed
    assert len(labs) == 1
    assert found.again == {PS}
    assert {path.stem for path in (run / "rerun" / "trials").iterdir()} == {f"PS-b2-r{i}" for i in range(1, 7)}
    assert all((run / f"comparison.{ending}").exists() for ending in ("md", "xml", "json"))
    assert {one.cell: one.verdict for one in found.judged} == {PS: "worse", RING: "better"}
    assert not found.suspicious
    twice, _ = gate.settle(run, source, open_runner, announce)  # type: ignore[arg-type]  # goes on: all is there
    assert twice.judged == found.judged


def test_what_was_slow_by_accident_passes_once_it_was_measured_again(ran: tuple[Source, Path]) -> None:
    source, run = ran
    gate = Gate(baseline(run), {"gst": 0.03})
    for path in (run / "trials").glob("ps-*"):
        record = json.loads(path.read_text())
        record["metrics"]["gst_median_s"] *= 1.5
        path.write_text(json.dumps(record))
    assert gate.settle(run, source, in_memory, announce)[0].of("worse") == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stop_after", "kept"),
    [
        (5, "5 of 12 trials finished"),
        (12 + 2, "12 of 12 trials, and 2 of 6 of the second measurement, finished"),
    ],
)
def test_what_goes_on_after_ctrl_c_is_the_gate(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int, kept: str
) -> None:
    """PS took a tenth of the time then; somebody ends the first measurement or the second."""
    from testbed.api import labs
    from testbed.experiment import runner as running

    monkeypatch.setattr(labs, "opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(SIX)
    assert testbed("run", "spec.yaml", "--out", "first").code == exits.OK
    assert testbed("baseline", "first", "--out", "past one.json").code == exits.OK
    past = json.loads((tmp_path / "past one.json").read_text())
    for cell in past["cells"]:
        if cell["label"] == "PS":
            cell["trials"] = [one | {"gst": one["gst"] / 10} for one in cell["trials"]]
    (tmp_path / "past one.json").write_text(json.dumps(past))

    really, ran = running.execute, []

    def execute(trial: Trial, *others: object) -> Outcome:
        if len(ran) == stop_after:
            raise KeyboardInterrupt
        ran.append(trial.id)
        return really(trial, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "execute", execute)
    options = ["--baseline", "past one.json", "--threshold", "gst=5%", "--metric", "gst", "--allow", "kernel"]
    cut = testbed("run", "spec.yaml", "--out", "second", *options, "--accept-inconclusive")
    assert (cut.code, len(ran)) == (exits.INTERRUPTED, stop_after)
    told, go_on = cut.err.splitlines()
    assert told == f"interrupted: {kept} and kept in second"
    assert go_on == (
        "  go on with: testbed run --resume second --baseline 'past one.json' --threshold gst=5% --metric gst "
        "--allow kernel --accept-inconclusive"
    )
    monkeypatch.setattr(running, "execute", really)
    done = testbed(*shlex.split(go_on.partition("testbed ")[2]))
    assert (done.code, done.err) == (exits.REGRESSION, "")
    assert "changes above 5 % count" in done.out
    assert len(list((tmp_path / "second" / "rerun" / "trials").iterdir())) == 6
    assert (tmp_path / "second" / "comparison.json").exists()


def rounds_of(run: Path, arm: str) -> list[int]:
    """The rounds in which an arm has a trial."""
    return sorted(int(path.stem.rpartition("-r")[2]) for path in (run / "trials").glob(f"{arm}-*"))


def test_rounds_are_added_until_enough_trials_are_valid(
    ran: tuple[Source, Path], made_up: Made, tmp_path: Path
) -> None:
    """Of six trials of ring three are INVALID, and one more is. PS runs as often, in turn with it."""
    source, first = ran
    gate = Gate(baseline(first, ring=0.8), {"gst": 0.03})
    made_up["ring"] = dict.fromkeys((0, 1, 2, 6), "INVALID")
    with Experiment.new(source, tmp_path / "new", in_memory, lacking=gate.lacking) as experiment:
        done = experiment.go(announce)
    assert rounds_of(done.path, "ring") == rounds_of(done.path, "PS") == list(range(1, 9))
    assert json.loads((done.path / "resolved.json").read_text())["most_rounds"] == 12
    found, _ = gate.settle(done.path, source, in_memory, announce)  # type: ignore[arg-type]
    assert {one.cell: one.verdict for one in found.judged} == {PS: "same", RING: "worse"}  # a quarter slower
    assert rounds_of(done.path / "rerun", "ring") == list(range(1, 9))  # which needed as many
    with Experiment.resumed(done.path, None, in_memory) as again:  # without the gate, its rounds are still the run's
        assert (len(again.records), again.left) == (16, [])


@pytest.mark.parametrize(
    ("invalid", "rounds"),
    [
        (range(6), 6),  # of none that is VALID one more is not to be hoped for
        (range(1, 20), 10),  # with one, three more would do, until there are only two rounds left
        (range(3, 20), 12),
    ],
)
def test_rounds_are_added_within_a_limit(
    ran: tuple[Source, Path], made_up: Made, tmp_path: Path, invalid: Sequence[int], rounds: int
) -> None:
    source, first = ran
    gate = Gate(baseline(first), {"gst": 0.03})
    made_up["ring"] = dict.fromkeys(invalid, "INVALID")
    with Experiment.new(source, tmp_path / "new", in_memory, lacking=gate.lacking) as experiment:
        assert rounds_of(experiment.go(announce).path, "ring") == list(range(1, rounds + 1))


def test_one_repeat_stays_one_and_until_keeps_its_own_limit(tmp_path: Path) -> None:
    asked = [read_spec(f"{SPEC}repeats: {one}\n", "spec.yaml", tmp_path) for one in ("1", "6", "{until: 3 %, most: 9}")]
    assert [topped_up(one.spec) for one in asked] == [1, 12, 9]


def test_a_run_that_was_added_to_goes_on_and_one_that_was_not_has_no_such_rounds(
    ran: tuple[Source, Path], made_up: Made, tmp_path: Path
) -> None:
    source, first = ran
    made_up["ring"] = dict.fromkeys((0, 1, 2), "INVALID")
    gate = Gate(baseline(first), {"gst": 0.03})
    with Experiment.new(source, tmp_path / "new", in_memory) as experiment:
        run = experiment.go(announce).path
    assert len(rounds_of(run, "ring")) == 6
    with Experiment.resumed(run, None, in_memory, lacking=gate.lacking) as experiment:
        experiment.go(announce)
    assert len(rounds_of(run, "ring")) == 7
    meta = json.loads((run / "resolved.json").read_text())
    assert meta["most_rounds"] == 12
    (run / "resolved.json").write_text(json.dumps(meta | {"most_rounds": "12"}))
    with pytest.raises(OutputError, match="damaged, its most_rounds is '12'"):
        Experiment.resumed(run, None, in_memory)
    del meta["most_rounds"]
    (run / "resolved.json").write_text(json.dumps(meta))
    with pytest.raises(SpecError, match=r"holds PS-b2-r7, ring-b2-r7, which the spec does not have"):
        Experiment.resumed(run, None, in_memory)


def test_a_copy_of_a_trial_under_another_name_is_refused(ran: tuple[Source, Path]) -> None:
    """As a finished trial, when the run goes on, and where a baseline is made of it."""
    _, run = ran
    trials = run / "trials"
    (trials / "ring-b2-r2.json").write_bytes((trials / "ring-b2-r1.json").read_bytes())
    told = r"ring-b2-r2.json: holds the trial 'ring-b2-r1', and a trial's file has its name"
    with pytest.raises(OutputError, match=told):
        Experiment.resumed(run, None, in_memory)
    with pytest.raises(OutputError, match=told):
        make_baseline(run, run / "baseline.json")


def test_trials_that_fail_are_a_regression_unless_that_is_accepted(
    testbed: Callable[..., Called], tmp_path: Path, made_up: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of ten, of an arm whose others are as fast as ever; what is accepted still shows."""
    from testbed.api import labs

    monkeypatch.setattr(labs, "opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(SPEC + "repeats: 10\n")
    assert testbed("run", "spec.yaml", "--out", "first").code == exits.OK
    made_up["ring"] = dict.fromkeys((1, 4, 5, 8), "FAILED")
    options = ["--baseline", "first", "--metric", "gst"]
    refused = testbed("run", "spec.yaml", "--out", "second", *options)
    assert refused.code == exits.REGRESSION
    assert "more failures: ring, batch 2: 4 of 10 trials FAILED, 0 of 10 in first" in refused.out
    assert refused.out.splitlines()[-1].startswith("more failures in 1 cell, 2 same: ")
    assert testbed("compare", "first", "second", "--metric", "gst").code == exits.REGRESSION
    accepted = testbed("run", "spec.yaml", "--out", "third", *options, "--accept-failures")
    assert accepted.code == exits.OK
    assert accepted.out.splitlines()[-1].startswith("more failures in 1 cell (accepted), 2 same: ")
    assert testbed("compare", "first", "second", "--metric", "gst", "--accept-failures").code == exits.OK


def test_a_cell_with_too_few_valid_trials_is_topped_up_and_one_without_any_does_not_pass_as_inconclusive(
    testbed: Callable[..., Called], tmp_path: Path, made_up: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.api import labs

    monkeypatch.setattr(labs, "opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(SIX)
    assert testbed("run", "spec.yaml", "--out", "first").code == exits.OK
    made_up["ring"] = dict.fromkeys(range(3), "INVALID")
    topped_up = testbed("run", "spec.yaml", "--out", "topped-up", "--baseline", "first", "--metric", "gst")
    assert topped_up.code == exits.OK
    assert "2 more trials to run: too few are VALID to decide\n[13/14] " in topped_up.out
    assert topped_up.out.splitlines()[-1] == "2 same: topped-up against first; changes above 3 % count"
    made_up["ring"] = dict.fromkeys(range(6), "INVALID")
    assert testbed("run", "spec.yaml", "--out", "second").code == exits.OK
    told = testbed("compare", "first", "second", "--metric", "gst", "--accept-inconclusive")
    assert told.code == exits.UNDECIDED
    assert "not compared: ring, batch 2: GST: second has no VALID trial with it (6 INVALID" in told.out


def test_repeats_are_the_gates_where_the_spec_leaves_them_open(tmp_path: Path, ran: tuple[Source, Path]) -> None:
    _, run = ran
    gate = Gate(baseline(run), {"gst": 0.03})
    (tmp_path / "open.yaml").write_text(SPEC)
    (tmp_path / "set.yaml").write_text(SIX)
    assert gate.prepared(tmp_path / "open.yaml", ["seed=1"]) == ["seed=1", f"repeats={REPEATS}"]
    assert gate.prepared(tmp_path / "set.yaml", []) == []
    with pytest.raises(IncomparableError, match=r"links.rate: 200 Mbit/s in old, 90 Mbit/s in set.yaml with --set"):
        gate.prepared(tmp_path / "set.yaml", ["links.rate=90 Mbit/s"])
    late = [replace(one, verdicts={**one.verdicts, "gst": "INVALID"}) for one in gate.baseline.trials]
    useless = replace(gate, baseline=replace(gate.baseline, trials=tuple(late)))
    with pytest.raises(IncomparableError, match=r"old has no VALID trial, so nothing could be compared"):
        useless.prepared(tmp_path / "set.yaml", [])


def test_a_baseline_says_in_which_numbers_trials_are_valid(ran: tuple[Source, Path], tmp_path: Path) -> None:
    _, run = ran
    for path in (run / "trials").glob("*-r1.json"):
        record = json.loads(path.read_text())
        late = {key: {"verdict": "INVALID", "spoilt_by": ["cpu"]} for key in ("jct", "throughput")}
        record["fidelity"] |= {"verdict": "INVALID", "numbers": {"gst": {"verdict": "VALID"}, **late}}
        path.write_text(json.dumps(record))
    told = make_baseline(run, tmp_path / "baseline.json")
    assert (told["valid"], told["verdict"]) == (12, "GST 12, JCT 10 of 12 VALID")


def test_a_baseline_of_few_trials_is_made_with_a_note(
    ran: tuple[Source, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = ran
    for path in (run / "trials").glob("ring-*-r[56].json"):
        path.unlink()
    told = make_baseline(run, tmp_path / "baseline.json")
    assert (told["cells"], told["trials"], told["valid"], told["verdict"]) == (2, 10, 10, "VALID")
    assert told["note"] == (
        "1 of 2 cells with fewer than the 6 trials, VALID in every number, that a decision needs: "
        "run with --set repeats=10"
    )
    with monkeypatch.context() as patch:
        patch.setattr(gate, "REPEATS", 4)  # more of them would not help
        told = make_baseline(run, tmp_path / "again.json")
    assert told["note"].endswith(f"that a decision needs: testbed report {run} says why others are not")
    kept = read(tmp_path / "baseline.json").trials[0]
    assert kept.values.keys() == {"gst", "jct", "throughput"}
    assert kept.gst_s == pytest.approx((0.2, 0.2))  # the first of three iterations is warm-up


def test_the_workflow_calls_what_there_is(root: Path) -> None:
    """Every call of testbed in docs/github-actions.yml is one that the command line takes, of a spec that is there."""
    from testbed.cli import app

    text = (root / "docs" / "github-actions.yml").read_text()
    workflow = yaml.safe_load(text)
    job = workflow["jobs"]["gate"]
    scripts = "\n".join([*(step.get("run", "") for step in job["steps"]), *re.findall(r"^#   (sudo .*)$", text, re.M)])
    calls = re.findall(r"\.venv/bin/testbed (.*)", scripts)
    assert len(calls) == 4
    group = typer.main.get_command(app)
    for call in calls:
        name, *words = shlex.split(call.replace("$SPEC", job["env"]["SPEC"]))
        context = group.commands[name].make_context(name, words)  # type: ignore[attr-defined]
        if name == "run":
            assert all((root / spec).is_file() for spec in context.params["specs"])
            assert context.params["out"] is not None
    assert (root / "setup.sh").is_file()
    assert "./setup.sh run" in scripts


def test_compare_exits_by_its_verdicts_and_writes_where_it_is_told(
    testbed: Callable[..., Called], tmp_path: Path
) -> None:
    write_side(tmp_path / "base.json", 0.2)
    write_side(tmp_path / "same.json", 0.2005)
    write_side(tmp_path / "slow.json", 0.25)
    same = testbed("compare", "base.json", "same.json", "--threshold", "10%")
    assert (same.code, same.err) == (exits.OK, "")
    assert same.out.splitlines()[-1] == "1 same: same.json against base.json; changes above 10 % count"
    assert testbed("compare", "base.json", "slow.json").code == exits.REGRESSION
    assert testbed("compare", "slow.json", "base.json").code == exits.OK
    unsure = testbed("compare", "base.json", "same.json", "--threshold", "gst=0.1%")
    assert (unsure.code, unsure.out.splitlines()[-1][:14]) == (exits.UNDECIDED, "1 inconclusive")
    assert testbed("compare", "base.json", "same.json", "--threshold", "gst=0.1%", "--accept-inconclusive").code == 0
    assert json.loads(testbed("compare", "base.json", "slow.json", "--format", "json").out)["counts"]["worse"] == 1
    assert testbed("compare", "base.json", "slow.json", "--json").out == (
        testbed("compare", "base.json", "slow.json", "--format", "json").out
    )
    assert testbed("compare", "base.json", "slow.json", "--json", "--format", "md").code == exits.BAD_SPEC_OR_USAGE
    written = testbed("compare", "base.json", "slow.json", "--format", "junit", "--out", "slow.xml")
    assert (written.code, written.out.splitlines()[-1]) == (exits.REGRESSION, "junit: slow.xml")
    assert 'failures="1"' in (tmp_path / "slow.xml").read_text()
    assert testbed("compare", "base.json", "slow.json", "--format", "md").out.startswith("**1 worse: slow.json")


def test_run_without_a_baseline_takes_no_options_of_a_comparison(testbed: Callable[..., Called]) -> None:
    called = testbed("run", "spec.yaml", "--threshold", "5%")
    assert called.code == exits.BAD_SPEC_OR_USAGE
    assert "fix: add --baseline FILE" in called.err


def test_history_lists_baselines_and_refuses_unknown_metrics(testbed: Callable[..., Called], tmp_path: Path) -> None:
    write_side(tmp_path / "base.json", 0.2)
    write_side(tmp_path / "later.json", 0.25, kernel="7.0")
    called = testbed("history", ".", "--out", "history.html")
    assert called.code == exits.OK
    assert called.out.splitlines()[0] == "small: ring, batch 2: GST"
    assert called.out.splitlines()[-1] == "page: history.html"
    assert json.loads(testbed("history", ".", "--json").out)["series"][0]["metric"] == "gst"
    assert testbed("history", ".", "--metric", "jct").out == (
        "left out: base.json: no VALID trial in JCT: ring, batch 2\n"
    )
    assert testbed("history", ".", "--metric", "gts").code == exits.BAD_SPEC_OR_USAGE
