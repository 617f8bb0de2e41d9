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

from analysis.cell import Cell
from analysis.compare import REPEATS
from analysis.load import COLUMNS
from analysis.measured import Measured, Side, read
from testbed import exits
from testbed.errors import IncomparableError
from testbed.execute import Outcome, blank
from testbed.gate import Gate, make_baseline
from testbed.progress import Lines
from testbed.run import Experiment
from testbed.spec import Source
from testbed.spec import read as read_spec
from testbed.trial import Trial

from .conftest import SPEC, Called
from .fake_lab import FakeLab
from .sides import write_side

SIX = SPEC + "repeats: 6\n"
PS, RING = Cell("PS", 2), Cell("ring", 2)


def announce(left: Sequence[Trial]) -> Lines:
    return Lines(left, Console(quiet=True))


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials whose GST is 0.2 s and a little, and which do not run."""

    def execute(trial: Trial, *_: object) -> Outcome:
        gst_s = 0.2 + trial.repeat / 1000
        metrics = {"gst_median_s": gst_s, "gst_theory_s": 0.2, "gst_ratio": 1.0, "jct_s": 1.0, "throughput_sps": 6.0}
        done = {"status": "done", "started": f"2026-11-21T09:{trial.repeat:02d}:00", "metrics": metrics}
        sums = {"checked_elements": 1, "wrong_elements": 0}
        record = blank(trial) | done | {"fidelity": {"verdict": "VALID", "checks": []}, "sums": sums}
        moments = [(rank, i, i + 0.0, i + 0.5, i + 0.5 + gst_s, i + 0.9, 1.0) for i in range(3) for rank in range(3)]
        return Outcome(record, pd.DataFrame(moments, columns=list(COLUMNS)), {})

    monkeypatch.setattr("testbed.run.execute", execute)


@pytest.fixture
def ran(tmp_path: Path, made_up: None) -> tuple[Source, Path]:  # noqa: ARG001
    """A run of two arms, six times each."""
    source = read_spec(SIX, "spec.yaml", tmp_path)
    with Experiment.new(source, tmp_path / "run", FakeLab) as experiment:
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

    def open_lab() -> FakeLab:
        labs.append(FakeLab())
        return labs[-1]

    found, failed = gate.settle(run, source, open_lab, announce)  # type: ignore[arg-type]
    assert not failed
    assert len(labs) == 1
    assert found.again == {PS}
    assert {path.stem for path in (run / "rerun" / "trials").iterdir()} == {f"ps-star3-b2-r{i}" for i in range(1, 7)}
    assert all((run / f"comparison.{ending}").exists() for ending in ("md", "xml", "json"))
    assert {one.cell: one.verdict for one in found.judged} == {PS: "worse", RING: "better"}
    assert not found.suspicious
    twice, _ = gate.settle(run, source, open_lab, announce)  # type: ignore[arg-type]  # goes on: all is there
    assert twice.judged == found.judged


def test_what_was_slow_by_accident_passes_once_it_was_measured_again(ran: tuple[Source, Path]) -> None:
    source, run = ran
    gate = Gate(baseline(run), {"gst": 0.03})
    for path in (run / "trials").glob("ps-*"):
        record = json.loads(path.read_text())
        record["metrics"]["gst_median_s"] *= 1.5
        path.write_text(json.dumps(record))
    assert gate.settle(run, source, FakeLab, announce)[0].of("worse") == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stop_after", "kept"),
    [
        (5, "5 of 12 trials are finished"),
        (12 + 2, "12 of 12 trials, and 2 of 6 of the second measurement, are finished"),
    ],
)
def test_what_goes_on_after_ctrl_c_is_the_gate(
    testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int, kept: str
) -> None:
    """PS took a tenth of the time then; somebody ends the first measurement or the second."""
    from testbed import run as running
    from testbed.cli import experiment as cli

    monkeypatch.setattr(cli, "machines", lambda *_: FakeLab)
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
    assert "past 5 % matters" in done.out
    assert len(list((tmp_path / "second" / "rerun" / "trials").iterdir())) == 6
    assert (tmp_path / "second" / "comparison.json").exists()


def test_repeats_are_the_gates_where_the_spec_leaves_them_open(tmp_path: Path, ran: tuple[Source, Path]) -> None:
    _, run = ran
    gate = Gate(baseline(run), {"gst": 0.03})
    (tmp_path / "open.yaml").write_text(SPEC)
    (tmp_path / "set.yaml").write_text(SIX)
    assert gate.prepared(tmp_path / "open.yaml", ["seed=1"]) == ["seed=1", f"repeats={REPEATS}"]
    assert gate.prepared(tmp_path / "set.yaml", []) == []
    with pytest.raises(IncomparableError, match=r"links.rate: 200 Mbit/s in old, 90 Mbit/s in set.yaml"):
        gate.prepared(tmp_path / "set.yaml", ["links.rate=90 Mbit/s"])


def test_a_baseline_of_few_trials_is_made_with_a_note(ran: tuple[Source, Path], tmp_path: Path) -> None:
    _, run = ran
    for path in (run / "trials").glob("ring-*-r[56].json"):
        path.unlink()
    told = make_baseline(run, tmp_path / "baseline.json")
    assert (told["cells"], told["trials"], told["valid"]) == (2, 10, 10)
    assert told["note"] == (
        "1 of 2 cells have fewer than the 6 VALID trials that a decision needs: run with --set repeats=10"
    )
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
            assert (root / context.params["spec"]).is_file()
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
    assert same.out.splitlines()[-1] == "1 same: same.json against base.json, and past 10 % matters"
    assert testbed("compare", "base.json", "slow.json").code == exits.REGRESSION
    assert testbed("compare", "slow.json", "base.json").code == exits.OK
    unsure = testbed("compare", "base.json", "same.json", "--threshold", "gst=0.1%")
    assert (unsure.code, unsure.out.splitlines()[-1][:14]) == (exits.UNDECIDED, "1 inconclusive")
    assert testbed("compare", "base.json", "same.json", "--threshold", "gst=0.1%", "--accept-inconclusive").code == 0
    assert json.loads(testbed("compare", "base.json", "slow.json", "--format", "json").out)["counts"]["worse"] == 1
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
    assert testbed("history", ".", "--metric", "jct").out == "no VALID trial in . has this metric\n"
    assert testbed("history", ".", "--metric", "gts").code == exits.BAD_SPEC_OR_USAGE
