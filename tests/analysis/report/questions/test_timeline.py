"""Iterations and events over time, and the Gantt chart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.analysis import metrics
from testbed.analysis.record.happened import Event, Loss, Recovery
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report.questions import timeline

from ..helpers import answer, asked, in_trial, only

EVENTS = (
    Event("rate", "h0 at 20 Mbit/s", planned_s=5.0, begun_s=5.001, done_s=5.002),
    Event("kill", "h4", planned_s=6.0, begun_s=6.0, done_s=6.01),
    Event("kill", "h5"),
)
RECOVERY = Recovery(without=["h4"], first=12, world=7, scheme="rina", called_s=6.2, recovered_s=1.0)

LOSS = Loss("h6.daemon", noticed_s=6.1)


@pytest.fixture
def disturbed(run: Run) -> Run:
    trials = (
        replace(t, events=EVENTS, recoveries=(RECOVERY,), losses=(LOSS,)) if t.id == "bml-b16" else t
        for t in run.trials
    )
    return replace(run, trials=tuple(trials))


def test_events_stand_at_the_moment_at_which_they_were_in_effect(disturbed: Run) -> None:
    question = answer(disturbed, "events")
    events = question.frame[question.frame["event"] != ""]
    assert events["time_s"].tolist() == [5.002, 6.01, 6.1, 6.2]
    assert [events["event"].tolist()[at] for at in (0, 2, 3)] == [
        "rate: h0 at 20 Mbit/s",
        "lost: h6.daemon",
        "7 workers go on from iteration 12, without h4",
    ]
    course = question.frame[question.frame["event"] == ""]
    samples = next(trial.samples for trial in disturbed.trials if trial.id == "bml-b16")
    assert samples is not None
    assert course["iteration_s"].sum() == pytest.approx(metrics.jct_s(samples))
    (panel,) = question.panels
    assert panel.caption == "BML on BCube at batch 16"
    assert [shape["x0"] for shape in panel.figure["layout"]["shapes"]] == [5.002, 6.01, 6.1, 6.2]
    assert question.seen[0].startswith("BML on BCube at batch 16: 4 events, the first at 5.00\u00a0s. The median ")


def test_several_disturbed_trials_are_told_in_a_table(run: Run) -> None:
    trials = tuple(replace(t, events=EVENTS[:1]) if t.batch == 16 else t for t in run.trials)
    question = answer(replace(run, trials=trials), "events")
    assert question.seen == ()
    assert [row["Trial"] for row in question.told] == [f"{label} at batch 16" for label in run.labels]
    assert {row["Events"] for row in question.told} == {"1, the first at 5.00\u00a0s"}
    assert all("(iteration " in row["Longest from then on"] for row in question.told)


def test_nothing_is_asked_of_trials_that_nothing_was_done_to(run: Run) -> None:
    assert asked(run, "events") is None


def test_the_chart_has_a_few_iterations_after_the_warm_up(run: Run) -> None:
    question = answer(run, "gantt")
    assert [panel.caption for panel in question.panels][2] == "BML on BCube at batch 16: iterations 1 to 3 of 20"
    frame = question.frame[question.frame["arm"] == "BML on BCube"]
    assert sorted(set(frame["iteration"])) == [1, 2, 3]
    assert len(frame) == 3 * 9
    moments = frame[["start_s", "ready_s", "all_ready_s", "sum_s", "end_s"]].to_numpy()
    assert (moments[:, 1:] >= moments[:, :-1]).all()
    assert (frame.groupby("iteration")["ready_s"].max() == frame.groupby("iteration")["all_ready_s"].first()).all()


def test_titles_of_figures_mark_a_trial_that_is_not_valid(disturbed: Run) -> None:
    run = in_trial(disturbed, "bml-b16", waiting="INVALID", iterations="INVALID", jct="UNWATCHED")
    captions = [panel.caption for panel in answer(run, "gantt").panels]
    assert captions[0].startswith("PS on fat-tree at batch 16: ")
    assert captions[2].startswith("BML on BCube at batch 16 (INVALID in exposed waiting): iterations ")
    assert [panel.caption for panel in answer(run, "events").panels] == [
        "BML on BCube at batch 16 (INVALID in iteration times)"
    ]
    drawn = [panel.caption for panel in answer(run, "links").panels]
    assert drawn[2] == "BML on BCube at batch 16 (UNWATCHED in JCT): bml on bcube(n=3,k=2)"


def test_the_chart_is_around_the_first_event(disturbed: Run) -> None:
    question = answer(disturbed, "gantt")
    panel = question.panels[2]
    samples = next(trial.samples for trial in disturbed.trials if trial.id == "bml-b16")
    assert samples is not None
    during = int(samples.groupby("iteration")["end_s"].max().searchsorted(5.002))
    assert panel.caption.endswith(f"iterations {during - 2} to {during + 2} of 20")
    phases = [phase[0] for phase in timeline.PHASES]
    assert [trace["name"] for trace in panel.figure["data"]] == [*phases, "perturbation"]
    assert panel.figure["layout"]["shapes"][0]["x0"] == 5.002


def test_of_many_workers_some_are_drawn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_WORKERS", 4)
    question = answer(only(run, "ps-b16"), "gantt")
    assert sorted(set(question.frame["rank"])) == [0, 3, 6]
    assert question.panels[0].caption.endswith("iterations 1 to 3 of 20, one worker in 3")


def test_waiting_is_told_as_a_share(run: Run) -> None:
    def wait(trial: Trial) -> Trial:
        """Rank 0 is ready 3 s into iterations of 10 s, the others from their start."""
        assert trial.samples is not None
        samples = trial.samples.copy()
        samples["start_s"] = 10.0 * samples["iteration"]
        samples["ready_s"] = samples["start_s"] + 3.0 * (samples["rank"] == 0)
        samples["sum_s"] = samples["end_s"] = samples["start_s"] + 10.0
        return replace(trial, samples=samples)

    only_one = only(run, "ps-b16")
    question = answer(replace(only_one, trials=(wait(only_one.trials[0]),)), "gantt")
    share = f"{8 / 9 * 0.3:.1%}"
    told = f"Share of workers' time spent waiting for others' gradients: {share} for PS on fat-tree."
    assert question.seen == (told,)
