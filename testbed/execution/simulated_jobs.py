"""Jobs that share a network, in simulated time. Every iteration is played, for jobs disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from testbed.control.conductor import Record
from testbed.execution.simulated_job import Played, forward_s, late_s, prepared_s, work_of
from testbed.perturb.registry import ASKED_IN_BAND
from testbed.topologies.patch_panel import repatched
from testbed.trial.job import Job
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import Synchronisation


class Jobs:
    """Jobs of a trial. Each begins when it is submitted, the jobs that had its hosts have ended, and its circuits carry
    light.

    Attributes:
        records: the moves of circuits, as :class:`.switching.Switching` has them.
        dark_s: by job with circuits, seconds from when its hosts were free until its circuits carried light.
    """

    def __init__(self, jobs: Sequence[Job], arena: Arena) -> None:
        self._arena, self._topology = arena, arena.topology
        self._waiting, self._begun = list(jobs), dict[str, _Run]()
        self._patched_s: dict[str, float] = {}
        self._players: list[Player] = []
        self._runs: dict[Player, _Run] = {}
        self.records: list[Record] = []
        self.dark_s: dict[str, float] = {}

    def play(self, ticks: Callable[[int], None]) -> list[Played]:
        """Play all; call ``ticks`` with the most iterations that a worker has done, now and then.

        Raises:
            TrialError: as :meth:`.Arena.told`.
        """
        done = 0
        self._begin()
        for now_s, player, node in self._arena.told(self._players):
            run = self._runs[player]
            if (count := run.note(node, now_s)) > done:
                ticks(done := count)
            if run.is_over:
                self._begin()
        return [run.played() for run in self._begun.values()]

    def _begin(self) -> None:
        """Begin the jobs whose hosts are free; patch circuits ahead, once the jobs that have the hosts now have
        begun."""
        for job in [job for job in self._waiting if self._are_over(job.own_slot.after)]:
            self._waiting.remove(job)
            free_s = max(self._arena.now_s, job.own_slot.start_s)
            lit_s = self._lit_s(job, free_s)
            run = _Run(job, Player(self._arena, work := work_of(job), self._topology), work)
            run.begin(lit_s)
            self._players.append(run.player)
            self._begun[job.name] = self._runs[run.player] = run
        panels = self._topology.panels
        for job in self._waiting if panels and panels.looks_ahead else ():
            if self._begun.keys() >= {*job.own_slot.after}:
                assert panels is not None
                self._patched_s.setdefault(job.name, self._arena.now_s + panels.reconfiguration_s)

    def _are_over(self, names: Sequence[str]) -> bool:
        return all(name in self._begun and self._begun[name].is_over for name in names)

    def _lit_s(self, job: Job, free_s: float) -> float:
        """Give a job whose hosts are free its circuits, if it has some; return when they carry light."""
        panels, circuits = self._topology.panels, job.own_slot.circuits
        if panels is None or circuits is None:
            return free_s
        self._topology = repatched(self._topology, panels.among(job.own_slot.hosts, circuits))
        dark_s = 0.0 if panels.looks_ahead else panels.reconfiguration_s
        due_s = free_s
        if panels.looks_ahead:  # of the first jobs, patching begins with the trial
            due_s = max(free_s, self._patched_s.get(job.name, panels.reconfiguration_s))
        what = f"circuits of the job {job.name}"
        self.records.append(Record(ASKED_IN_BAND, what, due_s, due_s, due_s + dark_s, takes_s=dark_s))
        self.dark_s[job.name] = due_s + dark_s - free_s
        return due_s + dark_s


class _Run:
    """A job that begins and comes to its end."""

    def __init__(self, job: Job, player: Player, work: Synchronisation) -> None:
        self.job, self.player, self._work = job, player, work
        self._begun_s = 0.0
        self._rank = {node: rank for rank, node in enumerate(job.plan.workers)}
        self._done = np.zeros(job.world, int)
        self._ends_s = np.zeros((job.iterations, job.world))

    @property
    def is_over(self) -> bool:
        """Whether all workers have ended."""
        return bool((self._done == self.job.iterations).all())

    def begin(self, begun_s: float) -> None:
        """Begin at a moment (s), now or later."""
        self._begun_s = begun_s
        after_s = begun_s - self.player.arena.now_s
        start_s = np.full(self.job.world, after_s)
        told = prepared_s(self.job, self._work), start_s, late_s(self.job, self._work), forward_s(self.job)
        self.player.begin(*told)

    def note(self, node: int, now_s: float) -> int:
        """Note that a worker has done an iteration; return how many it has done."""
        rank = self._rank[node]
        self._ends_s[self._done[rank], rank] = now_s
        self._done[rank] += 1
        return int(self._done[rank])

    def played(self) -> Played:
        """Return what its workers did."""
        sent_bytes = self.player.sent_bytes()
        sums_s = self.player.sums_s if self._work.late.steps else self._ends_s
        noted = self.player.notes, self.player.passes_s
        return Played(self.job, self._work, self._begun_s, self._ends_s, sums_s, *noted, sent_bytes)
