"""Time to accuracy, and losses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import tables
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import learning

from ..helpers import answer, asked, judged, only

BOTH = "ps-b16", "bml-b16"


def test_loss_tells_when_each_arm_reached_what_all_reached(run: Run) -> None:
    (sentence,) = answer(only(run, *BOTH), "loss").seen
    assert sentence.startswith("Batch 16: every arm had the same losses; the loss fell from 2.30 to 0.273 in ")


def test_other_losses_are_told_apart(run: Run) -> None:
    def halve(samples: Any) -> Any:
        return samples.assign(loss=samples["loss"] / 2)

    trials = tuple(replace(t, samples=halve(t.samples)) if t.id == "bml-b16" else t for t in run.trials)
    question = answer(replace(run, trials=trials), "loss")
    assert question.seen == (
        "The arms that have losses had the same losses in 1 of 2 settings.",
        "Without losses: PS on fat-tree at batch 64.",
    )
    rows = {row["Setting"]: row for row in question.told}
    assert {name: row["Losses of the arms"] for name, row in rows.items()} == {
        "batch 16": "different",
        "batch 64": "the same",
    }
    assert rows["batch 16"]["Loss"].startswith("1.15 to 2.30 at first; all reached ")
    assert all(row["Took"].count("for ") == 3 - (name == "batch 64") for name, row in rows.items())
    assert question.panels[0].figure["layout"]["yaxis"]["rangemode"] == "normal"  # fitted: a loss need not come near 0


def test_arms_that_begin_with_other_losses_are_told_so(run: Run) -> None:
    def more(samples: Any) -> Any:
        return samples.assign(loss=samples["loss"] + 0.02)

    both = only(run, *BOTH)
    trials = tuple(replace(t, samples=more(t.samples)) if t.id == "bml-b16" else t for t in both.trials)
    (sentence,) = answer(replace(both, trials=trials), "loss").seen
    assert sentence.startswith("Batch 16: the arms had different losses; the loss, 2.30 to 2.32 at first, fell to ")


def test_a_loss_that_rises_again_at_the_end_is_told(run: Run) -> None:
    def rise(trial: Trial) -> Trial:
        assert trial.samples is not None
        last = trial.samples["iteration"] == trial.samples["iteration"].max()
        return replace(trial, samples=trial.samples.assign(loss=trial.samples["loss"].where(~last, 1.5)))

    both = only(run, *BOTH)
    (sentence,) = answer(replace(both, trials=tuple(map(rise, both.trials))), "loss").seen
    assert "; the loss fell from 2.30 to " in sentence
    assert sentence.endswith(". At the end it was 1.50.")


def test_losses_of_different_iterations_are_not_called_different(run: Run) -> None:
    both = only(run, *BOTH)
    ps, bml = both.trials
    assert bml.samples is not None
    lacking = replace(bml, samples=bml.samples.assign(loss=bml.samples["loss"].where(bml.samples["iteration"] != 3)))
    (sentence,) = answer(replace(both, trials=(ps, lacking)), "loss").seen
    assert sentence.startswith("Batch 16: the arms had losses in different iterations; the loss fell from ")


def test_a_loss_that_does_not_fall_reaches_nothing(run: Run) -> None:
    def stay(trial: Trial) -> Trial:
        assert trial.samples is not None
        return replace(trial, samples=trial.samples.assign(loss=2.3 + 1e-4 * trial.samples["iteration"]))

    both = only(run, *BOTH)
    some = replace(both, trials=tuple(stay(t) if t.id == "bml-b16" else t for t in both.trials))
    assert answer(some, "loss").seen == (
        "Batch 16: the arms had different losses; the loss of BML on BCube did not fall.",
    )
    every = replace(both, trials=tuple(map(stay, both.trials)))
    assert answer(every, "loss").seen == ("Batch 16: every arm had the same losses; the loss did not fall.",)


def test_losses_that_are_not_numbers_give_no_curve(run: Run) -> None:
    trial = run.trials[0]
    assert trial.samples is not None
    assert learning.loss_curve(replace(trial, samples=trial.samples.assign(loss=None))) is None


def test_a_long_curve_is_thinned_and_keeps_its_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_POINTS", 5)
    assert answer(only(run, "ps-b16"), "loss").frame["iteration"].tolist() == [0, 5, 10, 14, 19]


def test_time_to_the_accuracy_that_all_reached(run: Run) -> None:
    def stops_early(trial: Trial) -> Trial:
        return replace(trial, accuracy=replace(trial.accuracy, curve=[[0, 0.1], [10, 0.5], [19, 0.4]]))

    run = only(run, *BOTH)
    ps, bml = run.trials
    question = answer(replace(run, trials=(stops_early(ps), bml)), "accuracy")
    assert question.frame["goal"].tolist() == [0.5, 0.5]
    expected = [learning.accuracy_curve(ps), learning.accuracy_curve(bml)]
    assert expected[0] is not None
    assert expected[1] is not None
    # BML's was 0.931 - 0.8 * 0.8**i at every second iteration i: from the fourth on it is 0.5 and more.
    times = [expected[0].loc[10, "time_s"], expected[1].loc[4, "time_s"]]
    assert question.frame["time_s"].tolist() == pytest.approx(times)
    assert question.seen[0].startswith("Batch 16: 50.0% was reached after ")


def test_times_stand_beyond_the_intervals_of_the_times_to_an_accuracy(run: Run) -> None:
    def repeated(trial: Trial) -> tuple[Trial, Trial]:
        samples = trial.samples
        assert samples is not None
        slower = samples.assign(**{name: 1.1 * samples[name] for name in ("start_s", "ready_s", "sum_s", "end_s")})
        return trial, replace(trial, repeat=1, samples=slower)

    both = only(run, *BOTH)
    question = answer(replace(both, trials=tuple(one for trial in both.trials for one in repeated(trial))), "accuracy")
    (panel,) = question.panels
    texts = [trace for trace in panel.figure["data"] if trace.get("mode") == "text"]
    assert [trace["x"][0] for trace in texts] == pytest.approx(question.frame["time_s_high"].tolist(), rel=1e-3)


def test_accuracy_that_is_not_the_trials_own_is_not_used(run: Run) -> None:
    trials = tuple(replace(t, accuracy=replace(t.accuracy, weights_equal=False)) for t in run.trials)
    assert asked(replace(run, trials=trials), "accuracy") is None


def test_accuracy_of_other_weights_is_not_the_trials(run: Run) -> None:
    """Rounding led the first arm away; the second's record is from before fixed point had a limit."""
    both = only(run, *BOTH)
    changes = {"ps-b16": {"training_error": 0.05, "curve": None, "checked_sums": 20}, "bml-b16": {}}
    trials = tuple(replace(t, accuracy=replace(t.accuracy, **changes[t.id])) for t in both.trials)
    question = answer(replace(both, trials=trials), "accuracy")
    assert question.frame["arm"].tolist() == ["BML on BCube"]
    assert (
        "Trials of PS on fat-tree have no accuracy over time: "
        "because of rounding, their weights differ from the single process's." in question.seen
    )
    old = tuple(replace(t, accuracy=replace(t.accuracy, rounding_error=382.0)) for t in both.trials)
    assert asked(replace(both, trials=old), "accuracy") is None


def test_weights_that_rounding_led_away_are_not_called_equal(run: Run) -> None:
    (trial,) = only(run, "ps-b16").trials
    told = {
        "equal": {},
        "sums\u00a0right": {"training_error": 0.05, "curve": None, "checked_sums": 20},
        "ROUNDED": {"rounding_error": 382.0},
        "DIFFER": {"weights_equal": False},
    }
    for text, changes in told.items():
        found = tables._trial_weights(replace(trial, accuracy=replace(trial.accuracy, **changes)))  # type: ignore[arg-type]
        assert (found.text, found.state) == (text, "bad" if text.isupper() else "good")


def test_a_setting_without_a_valid_arm_has_no_first(run: Run) -> None:
    """It is named as not ranked, so it may not be counted, too."""
    some = only(run, "ps-b16", "ring-b16", "ring-b64", "bml-b64")
    on_star = [replace(t, topology="star(hosts=9)") for t in some.trials]
    before, after = (
        answer(
            replace(run, trials=tuple(judged(t, verdict) if t.batch == 16 else judged(t, "VALID") for t in on_star)),
            "accuracy",
        ).seen
        for verdict in ("VALID", "INVALID")
    )
    assert before[0].startswith("Of 2 settings where several arms are ranked, ")
    assert after[0].startswith("Of 1 setting where several arms are ranked, ")
    assert after[1] == "Not ranked, because not VALID in JCT: PS on fat-tree at batch 16; Ring on fat-tree at batch 16."


def test_each_arm_has_a_line_in_both_panels_with_the_same_points(run: Run) -> None:
    question = answer(only(run, "ps-b16", "bml-b16"), "learning-curves")
    by_batches, by_time = question.panels
    assert [trace["rows"] for trace in by_batches.figure["data"]] == [trace["rows"] for trace in by_time.figure["data"]]
    assert {trace["x"]["column"] for trace in by_batches.figure["data"]} == {"mini_batches"}
    assert {trace["x"]["column"] for trace in by_time.figure["data"]} == {"time_s"}
    assert by_time.figure["layout"]["yaxis"]["tickformat"] == ".0%"
    ps = question.frame[question.frame["arm"] == question.frame["arm"].iloc[0]]
    assert ps["mini_batches"].tolist() == (ps["iteration"] + 1).tolist()
    assert len(question.told) == 2


def test_dropped_updates_are_mini_batches_that_were_computed(scheduled: Path) -> None:
    """Nine of ten updates are applied, so a round of applied ones takes more computing."""
    run = only(load(scheduled), "bml-b16")
    (curve,) = [learning._accuracy_by_batches(trial) for trial in run.trials]
    assert curve is not None
    workers = run.trials[0].world
    wanted = (curve["iteration"] + 1) * 10 / 9
    assert curve["mini_batches"].tolist() == pytest.approx(wanted.tolist(), abs=1.01 / workers)
    assert (curve["mini_batches"] > curve["iteration"] + 1).any()


def test_a_likelihood_has_its_own_axis(run: Run) -> None:
    both = only(run, "ps-b16", "bml-b16")
    told = tuple(replace(t, accuracy=replace(t.accuracy, curve_of="log_likelihood")) for t in both.trials)
    question = answer(replace(both, trials=told), "learning-curves")
    assert question.asked == "How did the likelihood rise?"
    titles = {panel.figure["layout"]["yaxis"]["title"]["text"] for panel in question.panels}
    assert titles == {"log-likelihood of a token (nats)"}


def test_weights_of_another_process_have_no_curve(run: Run) -> None:
    none = tuple(replace(t, accuracy=replace(t.accuracy, curve=None)) for t in run.trials)
    assert learning.by_iteration_and_time(study(replace(run, trials=none))) is None


def test_settings_beyond_the_most_are_told_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_SETTINGS", 1)
    question = answer(run, "learning-curves")
    assert len(question.panels) == 2
    assert "Drawn are the first 1 of 2 settings." in question.defined
