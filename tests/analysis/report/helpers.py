"""Runs with other trials or numbers, and what a report answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from testbed.analysis.record.trial import Slot
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report.cells import study
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import BUILT_IN
from testbed.analysis.verdicts import NUMBERS, joint_verdict, numbers_of


def with_metrics(run: Run, trial_id: str, **values: float | None) -> Run:
    """``run`` with some metrics of one trial changed."""
    changed = (replace(t, metrics=replace(t.metrics, **values)) if t.id == trial_id else t for t in run.trials)
    return replace(run, trials=tuple(changed))


def judged(trial: Trial, verdict: str, **numbers: str) -> Trial:
    """``trial`` with a verdict of all its numbers, but for those given."""
    found = numbers_of({"verdict": verdict})
    found |= {name: replace(found[name], verdict=one, spoilt_by=("cpu",)) for name, one in numbers.items()}
    return replace(trial, verdict=joint_verdict(found[name].verdict for name in NUMBERS), numbers=found)


LATE = dict.fromkeys(("jct", "throughput", "iterations", "waiting"), "INVALID")
"""What is INVALID of a trial whose computing took too long: all but GST."""


def in_trial(run: Run, trial_id: str, **numbers: str) -> Run:
    """``run`` with other verdicts of the numbers of one trial."""
    return replace(run, trials=tuple(judged(t, "VALID", **numbers) if t.id == trial_id else t for t in run.trials))


def only(run: Run, *trial_ids: str) -> Run:
    return replace(run, trials=tuple(trial for trial in run.trials if trial.id in trial_ids))


def sharing(run: Run, jobs: Mapping[str, str]) -> Run:
    """``run`` with its trials as jobs that shared networks: ``{"ps-b16": "x: a"}`` is job ``a`` of arm ``x``. Jobs of
    one arm are of one trial; others are left out."""
    trials = tuple(
        replace(trial, label=jobs[trial.id], slot=Slot(job), stored=(run.path, arm))
        for trial in run.trials
        if trial.id in jobs
        for arm, _, job in [jobs[trial.id].partition(": ")]
    )
    return replace(run, trials=trials, labels=tuple(sorted(jobs.values())))


def asked(run: Run, name: str) -> Question | None:
    """The run's answer to one question, without those to all others; ``test_ten_kinds.py`` has all."""
    return BUILT_IN[name](study(run)) if run.finished else None


def answer(run: Run, name: str) -> Question:
    """The run's answer to a question that it has data for."""
    question = asked(run, name)
    assert question is not None
    return question
