"""The sentences, against the numbers they are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis import words
from analysis.load import LinkCount, Run, Trial, load

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


@pytest.fixture
def run(run_dir: Path) -> Run:
    return load(run_dir)


def with_metrics(run: Run, trial_id: str, **values: float | None) -> Run:
    """``run`` with some metrics of one trial changed."""
    changed = (replace(t, metrics=replace(t.metrics, **values)) if t.id == trial_id else t for t in run.trials)
    return replace(run, trials=tuple(changed))


def only(run: Run, *trial_ids: str) -> Run:
    return replace(run, trials=tuple(trial for trial in run.trials if trial.id in trial_ids))


def test_the_finding_names_the_fastest_arm_against_the_first(run: Run) -> None:
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, jct_s=10.0)
    run = with_metrics(run, "bml-b16", gst_median_s=0.1, jct_s=8.5)
    assert words.finding(run) == (
        "BML on BCube took 0.50× the synchronisation time of PS on fat-tree, and 0.85× its job completion time."
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
        "and 0.50× to 0.55× its job completion time."
    )


def test_the_finding_says_so_when_nothing_was_faster(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_median_s=0.1)
    run = with_metrics(run, "ring-b16", gst_median_s=0.102)
    assert words.finding(run) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.02× its time."
    )


def test_the_finding_prefers_valid_trials(run: Run) -> None:
    doubtful = tuple(replace(t, verdict="INVALID") if t.id == "bml-b16" else t for t in run.trials)
    run = with_metrics(replace(run, trials=doubtful), "bml-b16", gst_median_s=1e-6)
    assert "BML" not in words.finding(run)


def test_a_single_arm_is_held_against_theory(run: Run) -> None:
    run = with_metrics(only(run, "bml-b64"), "bml-b64", gst_median_s=0.1, gst_ratio=1.03)
    assert (
        words.finding(run) == "BML on BCube at batch 64 synchronised in 0.100\u00a0s (median), 1.03× what theory says."
    )


def test_a_run_without_a_finished_trial(run: Run) -> None:
    run = only(run, "ps-b64")
    assert words.finding(run) == "No trial finished, so there is nothing to compare."
    assert words.jct(run) == words.gst(run) == words.loss(run) == []


def test_counts_and_doubts(run: Run) -> None:
    assert words.counts(run) == "6 trials: 4 VALID, 1 INVALID, 1 failed."
    assert words.doubts(run) == "Ring on fat-tree at batch 64 is INVALID: comparisons with it mean nothing."
    assert words.counts(only(run, "ps-b16")) == "1 trial: 1 VALID. 5 of 6 planned have not run."
    assert words.doubts(only(run, "ps-b16")) is None
    assert words.doubts(only(run, "ring-b64")) == "No finished trial is VALID: comparisons mean nothing."


def test_a_finding_rests_on_valid_trials(run: Run) -> None:
    assert words.is_believable(run)  # at batch 16 both are VALID
    assert not words.is_believable(only(run, "ring-b64"))
    invalid = tuple(replace(trial, verdict="INVALID") if trial.id == "ps-b16" else trial for trial in run.trials)
    assert not words.is_believable(replace(run, trials=invalid))
    assert words.is_believable(only(run, "ps-b64"))  # it says that nothing finished


def test_of_many_trials_only_the_extremes_are_named(run: Run) -> None:
    first = with_metrics(only(run, "ps-b16"), "ps-b16", jct_s=10.0).trials[0]
    many = tuple(
        replace(first, label=f"arm {n}", metrics=replace(first.metrics, sync_s=float(n), jct_s=10.0))
        for n in range(1, 6)
    )
    (sentence,) = words.jct(replace(run, trials=many))
    assert sentence.endswith(" Synchronisation is 10% of JCT for arm 1 to 50% of JCT for arm 5.")


def test_jct_tells_the_first_and_the_shares(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "bml-b16"), "ps-b16", jct_s=10.0, sync_s=4.0)
    run = with_metrics(run, "bml-b16", jct_s=8.0, sync_s=2.0)
    assert words.jct(run) == [
        "Batch 16: BML on BCube finished first, in 8.00\u00a0s, 0.80× of PS on fat-tree. "
        "Synchronisation is 40% of JCT for PS on fat-tree and 25% of JCT for BML on BCube."
    ]


def test_gst_tells_the_span_and_the_widest(run: Run) -> None:
    run = only(run, "ps-b16", "bml-b16")
    run = with_metrics(run, "ps-b16", gst_ratio=1.01, gst_median_s=0.2, gst_p95_s=0.21)
    run = with_metrics(run, "bml-b16", gst_ratio=1.04, gst_median_s=0.1, gst_p95_s=0.15)
    assert words.gst(run) == [
        "Medians are 1.01× to 1.04× what theory says, farthest from it BML on BCube at batch 16.",
        "BML on BCube at batch 16 varies most: its 95th percentile is 1.50× its median.",
    ]


def test_loss_tells_when_each_arm_reached_what_all_reached(run: Run) -> None:
    (sentence,) = words.loss(only(run, "ps-b16", "bml-b16"))
    assert sentence.startswith("Batch 16: every arm went through the same losses; from 2.30 down to 0.273 it took ")


def test_other_losses_are_told_apart(run: Run) -> None:
    def halve(samples: Any) -> Any:
        return samples.assign(loss=samples["loss"] / 2)

    trials = tuple(replace(t, samples=halve(t.samples)) if t.id == "bml-b16" else t for t in run.trials)
    sentence = words.loss(replace(run, trials=trials))[0]
    assert "the arms went through different losses" in sentence


def test_a_loss_that_does_not_fall_reaches_nothing(run: Run) -> None:
    def stay(trial: Trial) -> Trial:
        assert trial.samples is not None
        return replace(trial, samples=trial.samples.assign(loss=2.3 + 1e-4 * trial.samples["iteration"]))

    both = only(run, "ps-b16", "bml-b16")
    some = replace(both, trials=tuple(stay(t) if t.id == "bml-b16" else t for t in both.trials))
    assert words.loss(some) == [
        "Batch 16: the arms went through different losses; the loss of BML on BCube did not fall."
    ]
    every = replace(both, trials=tuple(map(stay, both.trials)))
    assert words.loss(every) == ["Batch 16: every arm went through the same losses; the loss did not fall."]


def test_an_invalid_trial_does_not_finish_first_before_a_valid_one(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "bml-b16"), "ps-b16", jct_s=10.0, sync_s=4.0)
    run = with_metrics(run, "bml-b16", jct_s=8.0, sync_s=2.0)
    doubtful = tuple(replace(t, verdict="INVALID") if t.id == "bml-b16" else t for t in run.trials)
    (sentence,) = words.jct(replace(run, trials=doubtful))
    assert sentence.startswith("Batch 16: PS on fat-tree finished first, in 10.0\u00a0s. ")


def test_losses_that_are_not_numbers_give_no_curve(run: Run) -> None:
    trial = run.trials[0]
    assert trial.samples is not None
    assert words.loss_curve(replace(trial, samples=trial.samples.assign(loss=None))) is None


def test_links_tell_the_busiest_and_the_drops() -> None:
    counted = [
        LinkCount(0, "h0", "s0", 1e9, 3 * 2**20, 0, 2 * 2**20),
        LinkCount(1, "s0", "h0", 1e9, 1 * 2**20, 2, None),
    ]
    assert words.links(counted) == (
        "The busiest link, h0 to s0, carried 3\u00a0MiB, 1.50× what theory says; that is 1.50× the mean link. "
        "All links together carried 4\u00a0MiB; 2 packets were dropped."
    )


def test_repeats_are_told_apart(run: Run) -> None:
    assert words.name(replace(run.trials[0], repeat=1)) == "PS on fat-tree (repeat 2) at batch 16"
