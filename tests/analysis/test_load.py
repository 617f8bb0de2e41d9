"""A run directory as typed values, and what is said about one that cannot be read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from testbed.analysis.load import load
from testbed.analysis.tables import trial as tables
from testbed.base.errors import OutputError

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_trials_come_by_batch_then_by_arm(run_dir: Path) -> None:
    run = load(run_dir)
    assert run.labels == ("PS on fat-tree", "Ring on fat-tree", "BML on BCube")
    assert [trial.id for trial in run.trials] == ["ps-b16", "ring-b16", "bml-b16", "ps-b64", "ring-b64", "bml-b64"]
    assert (run.name, run.batches, run.trials[0].warmup, run.planned) == ("quickstart", (16, 64), 1, 6)


def test_a_finished_trial_holds_what_was_measured(run_dir: Path) -> None:
    trial = load(run_dir).trials[2]
    assert trial.valid
    assert trial.metrics.gst_theory_s == 0.0974
    assert trial.accuracy.weights_equal is True
    assert trial.links[1].source == "s0.0"
    assert trial.links[1].target == "h0"
    assert trial.samples is not None
    assert len(trial.samples) == 9 * 20


def test_a_failed_trial_holds_its_error_and_nothing_else(run_dir: Path) -> None:
    trial = load(run_dir).trials[3]
    assert not trial.done
    assert not trial.valid
    assert trial.error is not None
    assert trial.error.startswith("h3: worker ended with status -9")
    assert trial.metrics.jct_s is None
    assert trial.verdict is None
    assert trial.samples is None


def test_the_reasons_of_an_invalid_trial_are_its_failed_checks(run_dir: Path) -> None:
    trial = load(run_dir).trials[4]
    assert not trial.valid
    assert [check.name for check in trial.reasons] == ["cpu"]


def test_ratios_are_relative_to_the_first_arm_of_the_same_batch(run_dir: Path) -> None:
    run = load(run_dir)
    ours = run.trials[2]
    assert run.reference_of(ours.label, ours.setting) == ("PS on fat-tree", ours.setting)


def test_an_interrupted_run_has_fewer_trials_than_planned(run_dir: Path) -> None:
    (run_dir / "trials" / "bml-b64.json").unlink()
    run = load(run_dir)
    assert len(run.trials) == 5
    assert run.planned == 6


def test_a_run_of_some_arms_has_no_labels_of_the_others(run_dir: Path, edit: Edit) -> None:
    for name in ("ps-b16", "ps-b64"):
        (run_dir / "trials" / f"{name}.json").unlink()
    assert load(run_dir).first == "PS on fat-tree"  # it may still run
    edit(run_dir / "resolved.json", lambda resolved: resolved.update(planned=4))
    assert load(run_dir).first == "Ring on fat-tree"


def test_what_a_later_writer_adds_is_passed_over(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial["metrics"].update(new_metric=1))
    assert load(run_dir).trials[0].metrics.jct_s is not None


def error(run_dir: Path) -> str:
    with pytest.raises(OutputError) as caught:
        load(run_dir)
    return str(caught.value).replace(str(run_dir), "RUN")


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    assert error(tmp_path) == (
        "RUN: not a run directory (it has no resolved.json)\n"
        "  fix: give the directory that testbed run wrote, such as runs/quickstart"
    )


def test_a_run_that_is_near_is_named(run_dir: Path) -> None:
    """A misspelt name, and the folder of all runs."""
    with pytest.raises(OutputError) as caught:
        load(run_dir.with_name(f"{run_dir.name}s"))
    assert str(caught.value) == f"{run_dir}s: there is no such run\n  fix: did you mean {run_dir}?"
    with pytest.raises(OutputError, match=rf"not a run directory .*\n  fix: .* {re.escape(str(run_dir))}"):
        load(run_dir.parent)


@pytest.mark.parametrize("name", ["resolved.json", "env.json", "trials/ps-b16.json"])
def test_a_newer_schema(run_dir: Path, edit: Edit, name: str) -> None:
    edit(run_dir / name, lambda value: value.update(schema=2))
    assert error(run_dir) == (
        f"RUN/{name}: schema 2; this version of testbed reads up to 1\n"
        "  fix: update testbed to the version that wrote the run"
    )


def test_a_truncated_trial(run_dir: Path) -> None:
    path = run_dir / "trials" / "ps-b16.json"
    path.write_text(path.read_text()[:100])
    message = error(run_dir)
    assert message.startswith("RUN/trials/ps-b16.json: damaged, not JSON (")
    assert message.endswith("\n  fix: rm -f RUN/trials/ps-b16.json; testbed run --resume RUN")


def test_a_trial_without_a_needed_field(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.pop("label"))
    assert error(run_dir).startswith("RUN/trials/ps-b16.json: damaged, 'label' is missing")


@pytest.mark.parametrize(
    ("key", "part", "named"),
    [
        ("label", None, "label"),
        ("events", [{"kind": None, "what": "h0 slower"}], "kind"),
        ("failover", {"losses": [{"how": "killed"}]}, "node"),
        ("links", [{}], "link"),
    ],
)
def test_null_in_place_of_a_needed_field(run_dir: Path, edit: Edit, key: str, part: object, named: str) -> None:
    """An event without a kind ended the report in a traceback."""
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update({key: part}))
    assert error(run_dir).startswith(f"RUN/trials/ps-b16.json: damaged, {named!r} is missing")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "fast", True, [1.0], 10**400])
def test_a_metric_that_is_no_finite_number(run_dir: Path, edit: Edit, value: object) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial["metrics"].update(jct_s=value))
    message = error(run_dir)
    assert message.startswith("RUN/trials/ps-b16.json: damaged")
    assert "no finite number" in message


def test_a_copy_of_a_trial_under_another_name(run_dir: Path) -> None:
    """It would count twice."""
    trials = run_dir / "trials"
    (trials / "ps-b16-again.json").write_bytes((trials / "ps-b16.json").read_bytes())
    assert error(run_dir) == (
        "RUN/trials/ps-b16-again.json: holds the trial 'ps-b16', and a trial's file has its name: a copy would count "
        "twice\n  fix: remove the copy, or give the file its trial's name"
    )


def test_a_link_without_a_needed_field(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial["links"][0].pop("bytes"))
    assert error(run_dir).startswith("RUN/trials/ps-b16.json: damaged, 'bytes' is missing")


def test_a_schema_that_is_no_number(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "env.json", lambda value: value.pop("schema"))
    assert error(run_dir).startswith("RUN/env.json: damaged, its schema is None")


def test_a_damaged_spec_cannot_be_repeated(run_dir: Path) -> None:
    (run_dir / "resolved.json").write_text("[]")
    assert error(run_dir) == (
        "RUN/resolved.json: damaged, holds no JSON object\n"
        "  fix: restore it from a copy, or run the spec again into a new directory"
    )


def test_samples_that_are_missing(run_dir: Path) -> None:
    (run_dir / "samples" / "ps-b16.parquet").unlink()
    assert error(run_dir) == (
        "RUN/samples/ps-b16.parquet: missing\n  fix: rm -f RUN/trials/ps-b16.json; testbed run --resume RUN"
    )


def test_samples_that_are_not_parquet(run_dir: Path) -> None:
    (run_dir / "samples" / "ps-b16.parquet").write_bytes(b"PAR1 no more")
    assert error(run_dir).startswith("RUN/samples/ps-b16.parquet: damaged, not Parquet (")


def test_samples_without_a_column(run_dir: Path) -> None:
    path = run_dir / "samples" / "ps-b16.parquet"
    pd.read_parquet(path).drop(columns="ready_s").to_parquet(path)
    assert error(run_dir).startswith("RUN/samples/ps-b16.parquet: damaged, the column 'ready_s' is missing")


def test_samples_of_a_warm_up_alone(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "resolved.json", lambda raw: raw["workload"].update(warmup=19))
    assert all(len(trial.gst_s) == 1 for trial in load(run_dir).trials if trial.gst_s is not None)
    edit(run_dir / "resolved.json", lambda raw: raw["workload"].update(warmup=20))
    why = "damaged, it has 20 iterations, of which 20 are warm-up (resolved.json)"
    assert error(run_dir).startswith(f"RUN/samples/bml-b16.parquet: {why}")


def test_a_script_that_did_fewer_iterations_than_the_spec_leaves_out(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "resolved.json", lambda raw: raw["workload"].update(warmup=20))
    for path in (run_dir / "trials").iterdir():
        edit(path, lambda raw: raw.update(warmup=19))
    assert all(len(trial.gst_s) == 1 for trial in load(run_dir).trials if trial.gst_s is not None)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        pytest.param("env.json", b"[" * 100_000, "damaged, not JSON (nested too deeply)", id="deep"),
        ("resolved.json", b'{"schema": 1, "arms": 5}', "damaged (arms is 5, no list)"),
        ("resolved.json", b'{"schema": 1, "workload": {"warmup": -1}}', "damaged (workload.warmup is -1, no whole"),
        ("env.json", b'{"schema": 1, "lab": {"a": 5}}', "damaged (lab.a is 5, no object)"),
        ("trials/ps-b16.json", b'{"schema": 1, "links": [null]}', "damaged (links.0 is None, no object)"),
        ("trials/ps-b16.json", b'{"schema": 1, "accuracy": {"curve": [[0, 1, 2]]}}', "damaged (accuracy.curve.0 is"),
        (
            "trials/ps-b16.json",
            b'{"schema": 1, "jobs": [{"links": [{"theory_bytes": "x"}]}]}',
            "damaged (jobs.0.links.0.theory_bytes is 'x', no finite number from 0 on",
        ),
        pytest.param("spec.yaml", b"#" * 140_000, "has more than 131,072 bytes", id="long"),
    ],
)
def test_a_file_that_was_made_to_hurt(run_dir: Path, name: str, content: bytes, why: str) -> None:
    (run_dir / name).write_bytes(content)
    assert error(run_dir).startswith(f"RUN/{name}: {why}")


def test_bytes_beyond_all_counters(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial["links"][0].update(bytes=10**25))
    assert "is no finite number below 2^63" in error(run_dir)


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([{"name": "a", "copies": 2**40}], "arms.0.jobs.0.copies is 1099511627776, no whole number from 0 to 100"),
        ([{"name": "a", "copies": 60}, {"name": "b", "copies": 60}], "an arm has more than 100 jobs, copies included"),
        ([{"name": "a", "copies": 0}] * 101, "arms.0.jobs has 101 values, more than 100"),
        ([{"name": "a"}], "'copies'"),
    ],
)
def test_counts_keep_the_bounds_of_the_spec(run_dir: Path, edit: Edit, jobs: list[dict[str, Any]], why: str) -> None:
    """Names of 2^40 copies took memory without end."""
    edit(run_dir / "resolved.json", lambda resolved: resolved["arms"][0].update(jobs=jobs))
    with pytest.raises(OutputError) as caught:
        load(run_dir)
    assert caught.value.problem == f"{run_dir / 'resolved.json'}: damaged ({why})"


@pytest.mark.parametrize(
    "name", ["resolved.json", "env.json", "trials/ps-b16.json", "spec.yaml", "samples/ps-b16.parquet"]
)
def test_a_fifo_is_not_waited_for_and_no_link_followed(run_dir: Path, name: str) -> None:
    path = run_dir / name
    kept = run_dir.with_name("elsewhere")
    path.rename(kept)
    path.symlink_to(kept)
    assert error(run_dir).startswith(f"RUN/{name}: is a symbolic link, or in one, and links are not followed there")
    path.unlink()
    if name != "resolved.json":  # which must be a file for its directory to be a run's
        os.mkfifo(path)
        assert error(run_dir).startswith(f"RUN/{name}: is no regular file")


def test_a_folder_of_trials_that_is_a_link(run_dir: Path) -> None:
    (run_dir / "trials").rename(run_dir.with_name("elsewhere"))
    (run_dir / "trials").symlink_to(run_dir.with_name("elsewhere"))
    assert "is a symbolic link, or in one" in error(run_dir)


def test_the_directory_itself_may_be_a_link(run_dir: Path) -> None:
    link = run_dir.with_name("link")
    link.symlink_to(run_dir)
    assert len(load(link).trials) == 6


def test_the_fix_is_quoted_for_the_shell(run_dir: Path) -> None:
    odd = run_dir.rename(run_dir.with_name("a run; rm -rf x"))
    (odd / "trials" / "ps-b16.json").write_text("")
    with pytest.raises(OutputError) as caught:
        load(odd)
    assert caught.value.fix == f"rm -f '{odd}/trials/ps-b16.json'; testbed run --resume '{odd}'"


def test_nothing_that_is_read_can_move_a_terminals_cursor(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update(label="\x1b[2J\u202ePS"))
    (run_dir / "spec.yaml").write_text("name: \x1b[2J")
    run = load(run_dir)
    assert run.labels[-1] == "\\x1b[2J\\u202ePS"
    assert run.spec == "name: \\x1b[2J"


def test_all_samples_together_are_bounded(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_IN_ALL", 3000)
    assert error(run_dir).startswith("RUN: its samples are more than 3,000 values")
