"""Questions that a report answers, a module for each kind of question. A question without data is not asked.

Installed packages add questions by entry points of the group ``testbed.questions``, each an :class:`Asks`;
``docs/extend/question.md`` has an example. They come after those that are listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from testbed.analysis.recorded import Run
from testbed.analysis.report.cells import Study, study
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import (
    communication,
    completion,
    jobs,
    learning,
    links,
    places,
    queues,
    recovery,
    replica,
    strategies,
    sync,
    timeline,
    transfers,
    tuning,
    updates,
    waiting,
    workers,
)
from testbed.base.errors import UsageError
from testbed.base.plugins import with_plugged


class Asks(Protocol):
    """A function that answers one question about a run, or gives None where the run has no data for it.

    It takes the run as a :class:`Study`: cells (an arm at a setting, with its repeats) in groups that are drawn
    together. It only reads: it changes neither the run nor a file, and gives the same for the same run each time. The
    answer's ``name`` is the name that the function is registered by.
    """

    def __call__(self, study: Study, /) -> Question | None: ...


BUILT_IN: Mapping[str, Asks] = {
    "jct": completion.jct,
    "speed-up": completion.speed_up,
    "gst": sync.against_theory,
    "overhead": sync.parts,
    "gst-workers": workers.against_workers,
    "accuracy": learning.accuracy,
    "learning-curves": learning.by_iteration_and_time,
    "loss": learning.loss,
    "waits": waiting.waits,
    "exposed": communication.exposed,
    "collectives": communication.collectives,
    "staleness": updates.distribution,
    "fates": updates.fates,
    "update-rates": updates.by_rate,
    "transfers": transfers.as_planned,
    "checkpoints": recovery.cost,
    "replica": replica.behind,
    "replica-bytes": replica.by_bound,
    "recovery": recovery.from_losses,
    "events": timeline.iterations,
    "tuning": tuning.masters,
    "gantt": timeline.gantt,
    "jobs": jobs.in_turn,
    "served": jobs.over_time,
    "distances": places.probed,
    "orders": places.by_cost,
    "queues": queues.waiting,
    "pairs": strategies.exchanged,
    "critical-path": strategies.path,
    "search": strategies.convergence,
    "links": links.bytes_per_link,
}
"""Questions that are built in, in the order of the page."""


def answered(run: Run) -> tuple[Question, ...]:
    """The questions that the run has data for.

    Raises:
        MissingToolError: an installed package adds a question that cannot be imported.
        UsageError: it adds one by a name that is taken, or that is not the answer's.
    """
    if not run.finished:
        return ()
    seen = study(run)
    answers = {name: ask(seen) for name, ask in with_plugged("questions", BUILT_IN).items()}
    found = {name: question for name, question in answers.items() if question is not None}
    for name, question in found.items():
        if question.name != name:  # by which a page tells it from others
            raise UsageError(
                f"the entry point {name} of testbed.questions gives a question whose name is {question.name!r}",
                fix=f"name the question {name!r}, or rename the entry point",
            )
    return tuple(found.values())
