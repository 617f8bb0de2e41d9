"""Plans that a controller tells the workers of a job.

All workers switch to a told plan at once (:mod:`testbed.workloads.kinds.tuned.ballot`). From
then on, samples have its number, which tells where a phase of the job begins (:meth:`.Context.replan`). A plan that a
worker leaves out is an event.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from testbed.control.feed import Feed, Line
from testbed.control.registry import Context
from testbed.files.shape import COUNT
from testbed.perturb.events import Event
from testbed.perturb.moments import NOW
from testbed.trial.job import Job
from testbed.trial.phases import Cause
from testbed.workloads.sync.forest import Forest, Parents
from testbed.workloads.sync.told_plans import NAME, along, told

KIND = "plan"
"""Name that records give to a plan that was left out."""
MOST_SAID = 200
"""Limit on the characters of a reason in a record."""


class Plans:
    """Plans of a job: a controller tells them here, and hears which of them workers follow.

    Attributes:
        told: number of the plan that was told last; 0 before the first.
        followed: number of the newest plan that samples say is followed; 0 for the job's own plan.
        forest: that plan.
        first: the first iteration that followed it.
    """

    def __init__(self, context: Context, job: Job) -> None:
        self._context, self._job = context, job
        self._told: dict[int, tuple[Forest, Cause]] = {}
        self._left_out: set[str] = set()
        self._heard = 0
        self._feed: Feed | None = None
        self.told = self.followed = self.first = 0
        self.forest = cast(Forest, job.plan)

    def tell(self, parents: Parents, cause: Cause) -> None:
        """Tell all workers the parents of each class, int[classes, hosts], and keep the cause of the change.

        Raises:
            SchemeError: the trees do not make all sums.
            LabError: a machine is lost.
        """
        forest = along(self.forest, parents)
        self.told += 1
        self._told[self.told] = forest, cause
        self._context.lab.tell(self._context.files.work / NAME, told(time.monotonic(), self.told, parents))

    def look(self, feed: Feed) -> Sequence[Line]:
        """Return the new lines of all processes, after noting what they tell of plans.

        Raises:
            SchemeError, TrialError: as :meth:`.Context.replan`.
        """
        self._feed = feed
        lines = feed.lines(self._heard)
        self._heard += len(lines)
        for process, said in lines:
            if process not in self._job.workers:
                continue
            if said["kind"] == "iteration" and COUNT.has(said.get("plan")) and COUNT.has(said.get("i")):
                self._followed(said["plan"], said["i"])
            elif said["kind"] == "journal" and isinstance(said.get("left_out"), str):
                self._note(process, said["left_out"][:MOST_SAID])
        return lines

    def close(self) -> None:
        """Look a last time, after the processes have ended."""
        if self._feed is not None:
            self.look(self._feed)

    def _followed(self, number: int, iteration: int) -> None:
        if number <= self.followed or number not in self._told:
            return
        forest, cause = self._told[number]
        self._context.replan(self._job, iteration, forest, cause)
        self.forest, self.followed, self.first = forest, number, iteration
        self._told = {other: plan for other, plan in self._told.items() if other > number}

    def _note(self, process: str, why: str) -> None:
        """Record a plan that a worker has left out, if no other worker has said so before."""
        if why not in self._left_out:
            self._left_out.add(why)
            assert self._feed is not None
            self._context.act(Event(NOW, KIND, f"{process} leaves out {why}"), self._feed)
