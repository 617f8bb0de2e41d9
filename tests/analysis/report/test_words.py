"""The sentences, against the numbers they are made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.analysis.report.cells import interval
from testbed.analysis.statistics import Interval

from .helpers import judged, only, sharing, with_metrics

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_the_finding_names_the_fastest_arm_against_the_first(run: Run) -> None:
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, jct_s=10.0)
    run = with_metrics(run, "bml-b16", gst_median_s=0.1, jct_s=8.5)
    assert words.finding(run) == (
        "BML on BCube took 0.50× the synchronisation time of PS on fat-tree, and 0.85× its job completion time. "
        "Left out: Ring on fat-tree at 1 of 2 settings, BML on BCube at 1 of 2 settings (PS on fat-tree failed)."
    )


def test_the_finding_gives_a_span_over_batches(run_dir: Path, edit: Edit) -> None:
    for batch, gst in ((16, 0.1), (64, 0.11)):
        for scheme, seconds in (("ps", 0.2), ("bml", gst)):
            metrics = {"gst_median_s": seconds, "jct_s": 10 * seconds}
            edit(
                run_dir / "trials" / f"{scheme}-b{batch}.json",
                lambda trial, metrics=metrics: trial.update(
                    status="done", fidelity={"verdict": "VALID", "checks": []}, metrics=metrics
                ),
            )
    (run_dir / "samples" / "ps-b64.parquet").write_bytes((run_dir / "samples" / "bml-b64.parquet").read_bytes())
    assert words.finding(load(run_dir)) == (
        "BML on BCube took 0.50× to 0.55× the synchronisation time of PS on fat-tree, "
        "and 0.50× to 0.55× its job completion time. "
        "Left out: Ring on fat-tree at 1 of 2 settings (INVALID in GST)."
    )


def test_the_finding_says_so_when_nothing_was_faster(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_median_s=0.1)
    run = with_metrics(run, "ring-b16", gst_median_s=0.102)
    assert words.finding(run) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.02× its time."
    )


def test_the_finding_prefers_valid_trials(run: Run) -> None:
    doubtful = tuple(judged(t, "INVALID") if t.id == "bml-b16" else t for t in run.trials)
    run = with_metrics(replace(run, trials=doubtful), "bml-b16", gst_median_s=1e-6)
    lead, _, left = words.finding(run).partition(" Left out: ")
    assert "BML" not in lead
    assert left.startswith("BML on BCube at 1 of 2 settings (INVALID in GST); ")


def test_the_finding_says_of_how_many_settings_a_job_completion_time_is(run_dir: Path, edit: Edit) -> None:
    valid = {"gst": {"verdict": "VALID"}, "jct": {"verdict": "VALID"}}
    late = valid | {"jct": {"verdict": "INVALID", "spoilt_by": ["cpu"]}}
    for trial_id, numbers in (("ps-b16", valid), ("bml-b16", valid), ("ps-b64", valid), ("bml-b64", late)):
        fidelity = {"verdict": "VALID" if numbers is valid else "INVALID", "checks": [], "numbers": numbers}
        edit(
            run_dir / "trials" / f"{trial_id}.json",
            lambda trial, fidelity=fidelity: trial.update(
                status="done", fidelity=fidelity, metrics={"gst_median_s": 0.1, "jct_s": 1.0}
            ),
        )
    (run_dir / "samples" / "ps-b64.parquet").write_bytes((run_dir / "samples" / "bml-b64.parquet").read_bytes())
    run = load(run_dir)
    run = replace(run, trials=tuple(trial for trial in run.trials if "Ring" not in trial.label))
    for trial_id in ("bml-b16", "bml-b64"):
        run = with_metrics(run, trial_id, gst_median_s=0.05, jct_s=0.8)
    assert words.finding(run) == (
        "BML on BCube took 0.50× the synchronisation time of PS on fat-tree, "
        "and 0.80× its job completion time at 1 of these 2 settings."
    )


def test_arms_with_other_numbers_of_workers_are_not_ranked(run: Run) -> None:
    run = only(run, "ps-b16", "ring-b16", "bml-b16")
    worlds = {"ps-b16": 9, "ring-b16": 18, "bml-b16": 27}
    run = replace(run, trials=tuple(replace(trial, world=worlds[trial.id]) for trial in run.trials))
    for trial_id, throughput_sps in (("ps-b16", 100.0), ("ring-b16", 150.0), ("bml-b16", 300.0)):
        run = with_metrics(run, trial_id, throughput_sps=throughput_sps)
    assert words.finding(run) == (
        "Ring on fat-tree trained 1.50× as many samples a second as PS on fat-tree, with 18 workers in place of 9; "
        "BML on BCube trained 3.00× as many samples a second as PS on fat-tree, with 27 workers in place of 9."
    )


def test_each_network_is_said_once(run: Run) -> None:
    other = {"PS on fat-tree": "bcube(n=3,k=2)"}
    trials = (replace(trial, topology=other.get(trial.label, "star(hosts=9)")) for trial in run.trials)
    changed = replace(run, trials=tuple(trials))
    assert words.unlike(changed) == (
        "Networks differ: PS on fat-tree ran on bcube(n=3,k=2); Ring on fat-tree and BML on BCube ran on star(hosts=9)."
    )


def test_a_single_arm_is_held_against_theory(run: Run) -> None:
    run = with_metrics(only(run, "bml-b64"), "bml-b64", gst_median_s=0.1, gst_ratio=1.03)
    assert (
        words.finding(run) == "BML on BCube at batch 64 synchronised in 0.100\u00a0s (median), 1.03× its lower bound."
    )


def test_jobs_are_compared_with_jobs_of_the_same_name(run: Run) -> None:
    """Job b of arm y is faster than anything but not compared with job a of arm x."""
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, jct_s=10.0)
    run = with_metrics(run, "ring-b16", gst_median_s=0.15, jct_s=9.0)
    run = with_metrics(run, "bml-b16", gst_median_s=0.01, jct_s=1.0)
    shared = sharing(run, {"ps-b16": "x: a", "bml-b16": "x: b", "ring-b16": "y: a"})
    assert words.finding(shared) == (
        "y: a took 0.75× the synchronisation time of x: a, and 0.90× its job completion time."
    )
    slower = with_metrics(shared, "ring-b16", gst_median_s=0.3)
    assert words.finding(slower) == (
        "No job synchronised faster than in the first arm; y: a took 1.50× the time of x: a."
    )


def test_jobs_without_others_of_their_name_are_not_compared(run: Run) -> None:
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, gst_ratio=1.5)
    for other in ("x: b", "y: b"):
        found = words.finding(sharing(run, {"ps-b16": "x: a", "bml-b16": other}))
        assert found == "x: a at batch 16 synchronised in 0.200\u00a0s (median), 1.50× its lower bound."


def test_a_run_without_a_finished_trial(run: Run) -> None:
    run = only(run, "ps-b64")
    assert words.finding(run) == "No trial finished, so there is nothing to compare."


def test_counts_and_doubts(run: Run) -> None:
    assert words.counts(run) == "6 trials: 4 VALID, 1 INVALID, 1 failed."
    assert words.doubts(run) == "Ring on fat-tree at batch 64 is INVALID: comparisons with it mean nothing."
    assert words.counts(only(run, "ps-b16")) == "1 trial: 1 VALID. 5 of 6 planned trials have not run."
    assert words.doubts(only(run, "ps-b16")) is None
    assert words.doubts(only(run, "ring-b64")) == "No finished trial is VALID: comparisons mean nothing."


def invalid(run: Run, trial_id: str) -> Run:
    trials = (judged(trial, "INVALID") if trial.id == trial_id else trial for trial in run.trials)
    return replace(run, trials=tuple(trials))


def test_of_commands_a_valid_one_is_not_held_against_others(run: Run) -> None:
    run = only(run, "ps-b16", "bml-b16")
    for name, jct_s in (("ps-b16", 4.0), ("bml-b16", 3.0)):
        run = with_metrics(run, name, gst_median_s=None, jct_s=jct_s)
    assert words.finding(run) == "BML on BCube took 3.00\u00a0s; PS on fat-tree 4.00\u00a0s."
    assert words.finding(invalid(run, "ps-b16")) == (
        "BML on BCube took 3.00\u00a0s. Left out: PS on fat-tree (not VALID in JCT)."
    )
    assert words.is_believable(invalid(run, "ps-b16"))


def test_a_finding_rests_on_valid_trials(run: Run) -> None:
    assert words.is_believable(run)  # at batch 16 both are VALID
    assert not words.is_believable(only(run, "ring-b64"))
    compared = only(run, "ps-b16", "bml-b16")
    first, other = (invalid(compared, name) for name in ("ps-b16", "bml-b16"))
    assert words.finding(first).startswith("BML on BCube at batch 16 synchronised in ")  # the VALID one, by itself
    assert words.is_believable(first)
    assert not words.is_believable(other)
    assert words.unreliable(first) == ""
    assert words.unreliable(other) == "Not reliable: GST is INVALID in 1 of 2 trials."
    assert words.is_believable(only(run, "ps-b64"))  # it says that nothing finished


def test_repeats_are_told_apart(run: Run) -> None:
    assert words.name(replace(run.trials[0], repeat=1)) == "PS on fat-tree (repeat 2) at batch 16"


def test_a_sweeps_trials_are_named_by_their_point(run: Run) -> None:
    trial = replace(run.trials[0], point={"links.rate": "50 Mbit/s", "hosts": 4})
    assert words.name(trial) == "PS on fat-tree at batch 16, links.rate 50 Mbit/s, hosts 4"


def test_times_of_a_profile_are_over_links_of_a_rate_unless_arms_have_rates_of_their_own(run: Run) -> None:
    work = {"kind": "profile", "model": "vgg19", "scale": 200.0}
    resolved = {"workload": work, "links": {"rate_bps": 40_000_000_000}, "arms": [{"rate_bps": None}] * 2}
    assert "over links of 40" in words.scale(replace(run, resolved=resolved))
    resolved["arms"] = [{"rate_bps": None}, {"rate_bps": 10**9}]
    assert "times are those of the whole models" in words.scale(replace(run, resolved=resolved))


def test_who_did_it_how_often() -> None:
    assert words.counted(["a", "b", "a"], "won") == "a won 2 and b in 1"
    assert words.counted(["a"], "won") == "a won 1"


def test_an_interval_is_said_where_there_is_one() -> None:
    assert words.between(Interval(1.0, 0.9, 1.2), words.ratio) == " (0.90× to 1.20×)"
    assert words.between(interval([1.0]), words.ratio) == ""
    assert words.columns("x", interval([1.0])) == {"x": 1.0, "x_low": None, "x_high": None}


@pytest.mark.parametrize("least", [3, 1])
def test_intervals_that_repeats_went_on_for_have_their_true_share(whole_sweep: Path, least: int) -> None:
    run = load(whole_sweep)
    asked = replace(run, resolved=run.resolved | {"repeats": {"until": 0.2, "least": least, "most": 20}})
    assert re.search(
        r"Repeats scatter by \d.*% of the intervals within 20\.0% cover the median\.$", words.counts(asked)
    )
    assert "scatter" not in words.counts(run)


@pytest.mark.parametrize("repeats", [{"until": "x"}, {"until": 0.2}, {"until": 7.0, "least": 3, "most": 5}, [], None])
def test_a_damaged_wish_for_repeats_promises_nothing(whole_sweep: Path, repeats: object) -> None:
    run = load(whole_sweep)
    assert "scatter" not in words.counts(replace(run, resolved=run.resolved | {"repeats": repeats}))
