"""Jobs that share a network, in simulated time. Every iteration is played, for jobs disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from testbed.execution.simulated_job import Played, prepared_s, work_of
from testbed.trial.job import Job
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.player import Player


def begins_s(jobs: Sequence[Job]) -> float:
    """Return when the first job begins."""
    return min(job.own_slot.start_s for job in jobs if not job.own_slot.after)


class Jobs:
    """Jobs of a trial. Each begins when it is submitted and the jobs that had its hosts have ended."""

    def __init__(self, jobs: Sequence[Job], arena: Arena) -> None:
        self._arena = arena
        self._runs = [_Run(job, arena) for job in jobs]
        self._of = {run.player: run for run in self._runs}
        self._begun: list[_Run] = []

    def play(self, ticks: Callable[[int], None]) -> list[Played]:
        """Play all; call ``ticks`` with the most iterations that a worker has done, now and then.

        Raises:
            TrialError: as :meth:`.Arena.told`.
        """
        done = 0
        self._begin()
        for now_s, player, node in self._arena.told([*self._of]):
            run = self._of[player]
            count = run.note(node, now_s)
            if run.is_over:
                self._begin()
            if count > done:
                ticks(done := count)
        return [run.played() for run in self._runs]

    def _begin(self) -> None:
        """Begin the jobs whose hosts are free."""
        ended = {run.job.name for run in self._runs if run.is_over}
        for run in self._runs:
            if run not in self._begun and ended.issuperset(run.job.own_slot.after):
                run.begin()
                self._begun.append(run)


class _Run:
    """A job that begins and comes to its end."""

    def __init__(self, job: Job, arena: Arena) -> None:
        self.job, self._work = job, work_of(job)
        self.player = Player(arena, self._work)
        self._begun_s = 0.0
        self._rank = {node: rank for rank, node in enumerate(job.plan.workers)}
        self._done = np.zeros(job.world, int)
        self._ends_s = np.zeros((job.iterations, job.world))

    @property
    def is_over(self) -> bool:
        """Whether all workers have ended."""
        return bool((self._done == self.job.iterations).all())

    def begin(self) -> None:
        """Begin now, or when it is submitted if that is later."""
        now_s = self.player.arena.now_s
        self._begun_s = max(now_s, self.job.own_slot.start_s)
        self.player.begin(prepared_s(self.job, self._work), np.full(self.job.world, self._begun_s - now_s))

    def note(self, node: int, now_s: float) -> int:
        """Note that a worker has done an iteration; return how many it has done."""
        rank = self._rank[node]
        self._ends_s[self._done[rank], rank] = now_s
        self._done[rank] += 1
        return int(self._done[rank])

    def played(self) -> Played:
        """Return what its workers did."""
        sent_bytes = self.player.sent_bytes()
        return Played(self.job, self._work, self._begun_s, self._ends_s, self.player.notes, sent_bytes)
