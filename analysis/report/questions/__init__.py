"""What a report answers, a module for each kind of question. A question without data is not asked."""

from __future__ import annotations

from collections.abc import Callable

from analysis.recorded import Run
from analysis.report.cells import Study, study
from analysis.report.question import Question
from analysis.report.questions import completion, learning, links, staleness, sync, timeline, waiting, workers

QUESTIONS: tuple[Callable[[Study], Question | None], ...] = (
    completion.jct,
    completion.speed_up,
    sync.against_theory,
    workers.against_workers,
    learning.accuracy,
    learning.loss,
    waiting.waits,
    staleness.distribution,
    timeline.iterations,
    timeline.gantt,
    links.bytes_per_link,
)
"""In the order of the page. Each gives None where the run has no data for it."""


def answered(run: Run) -> tuple[Question, ...]:
    """The questions that the run has data for."""
    if not run.finished:
        return ()
    seen = study(run)
    return tuple(question for ask in QUESTIONS if (question := ask(seen)) is not None)
