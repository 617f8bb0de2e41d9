"""Rounds of recovery of one job as a state machine: events in, instructions out.

It touches neither a lab nor files, and reads no clock: :mod:`testbed.recovery.failover` makes the events of what it
sees, and carries instructions out. The state can be pickled between any two events.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from testbed.base.errors import SpecError, WorkerError
from testbed.lab.programs import Exit
from testbed.recovery.deaths import Course, Death, Recovery, who
from testbed.trial.job import Job
from testbed.trial.phases import BEGINNING, DEATH, Cause, Change, contributions, replanned, split
from testbed.workloads.plan import Plan


@dataclass(frozen=True)
class Said:
    """Message of a process when it leaves a generation: how many iterations it has done, and why it left."""

    completed: int
    error: str


# Events.


class Died(NamedTuple):
    """A process of the job was killed."""

    exit: Exit


class CheckedIn(NamedTuple):
    """A process has left the generation."""

    process: str
    said: Said


class Looked(NamedTuple):
    """All that happened before ``now_s`` was told, and these processes of the job run."""

    now_s: float
    running: tuple[str, ...]


# Instructions.


class Call(NamedTuple):
    """Tell all to leave this generation."""

    generation: int


class Fence(NamedTuple):
    """Kill a process that has not checked in for too long."""

    process: str


class SendOn(NamedTuple):
    """Send those that checked in from this generation into the next. ``taken`` are the samples that were trained on
    before."""

    generation: int
    here: tuple[str, ...]
    recovery: Recovery
    taken: int


Event = Died | CheckedIn | Looked
Instruction = Call | Fence | SendOn


class Rounds:
    """Deaths of a job's processes, and the rounds in which the others agree on how to go on.

    Attributes:
        generation: number of rounds that have ended.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._changes = [Change(0, job, BEGINNING)]
        self._deaths: list[Death] = []
        self._buried = 0
        self._fenced: set[str] = set()
        self._called_s: float | None = None
        self._here: dict[str, Said] = {}
        self._recoveries: list[Recovery] = []

    @property
    def generation(self) -> int:
        return len(self._recoveries)

    @property
    def course(self) -> Course:
        """Course of the job until now."""
        phases = split(self._changes, self._job.iterations)
        return Course(phases, tuple(self._recoveries), tuple(self._unburied))

    def handle(self, event: Event) -> list[Instruction]:
        """Return what is to be done now.

        Raises:
            WorkerError: nobody is left, or the trial cannot go on though nobody died.
        """
        if isinstance(event, Died):
            self._deaths.append(Death(event.exit.process, event.exit.node, event.exit.ended_s, self._how(event.exit)))
            return []
        if isinstance(event, CheckedIn):
            self._here[event.process] = event.said
            return []
        return self._looked(event.now_s, event.running)

    def _looked(self, now_s: float, running: tuple[str, ...]) -> list[Instruction]:
        if not running:
            if self._dead >= set(self._job.plan.workers):
                raise self._nobody()
            return []
        here = {process: self._here[process] for process in running if process in self._here}
        told: list[Instruction] = []
        if self._called_s is None and (self._unburied or here):
            self._called_s = now_s
            told.append(Call(self.generation))
        if self._called_s is None:
            return told
        if len(here) == len(running):
            return [*told, self._send_on(now_s, here)]
        if now_s - self._called_s >= self._silence_s:
            missing = [process for process in running if process not in here and process not in self._fenced]
            self._fenced.update(missing)
            told += map(Fence, missing)
        return told

    @property
    def _unburied(self) -> list[Death]:
        """Deaths since the last round ended."""
        return self._deaths[self._buried :]

    @property
    def _dead(self) -> set[int]:
        return {death.node for death in self._deaths}

    @property
    def _silence_s(self) -> float:
        return self._job.network.spec.silence_s

    def _how(self, exit: Exit) -> str:
        if exit.process in self._fenced:
            return f"did not check in for {self._silence_s:g} s"
        return f"was killed by {signal.Signals(-exit.status).name}"

    def _send_on(self, now_s: float, here: Mapping[str, Said]) -> SendOn:
        """End the round: all who are alive have left the generation."""
        by_node = {self._job.processes[process]: said for process, said in here.items()}
        workers = sorted(node for node in by_node if node in self._job.plan.workers)
        if not workers:
            raise self._nobody()
        first = max(by_node[worker].completed for worker in workers)
        ahead = next(worker for worker in workers if by_node[worker].completed == first)
        new = tuple(self._unburied)
        if not new and first == self._changes[-1].first:
            raise _unexplained(here)
        job = self._without_the_dead() if new else self._changes[-1].job
        cause = Cause(DEATH, who(new)) if new else Cause("silence", "no worker made progress")
        behind = tuple(worker for worker in workers if by_node[worker].completed < first)
        assert self._called_s is not None
        recovery = Recovery(new, first, job, ahead, behind, self._called_s, now_s)
        generation = self.generation
        self._recoveries.append(recovery)
        self._changes.append(Change(first, job, cause))
        self._buried, self._called_s, self._here = len(self._deaths), None, {}
        taken = contributions(split(self._changes, first)) * self._job.batch
        return SendOn(generation, tuple(here), recovery, taken)

    def _without_the_dead(self) -> Job:
        """
        Raises:
            WorkerError: the scheme cannot do without them.
        """
        known, topology = self._job, self._job.network.topology
        repair = known.kind.repair
        assert repair is not None  # as the job goes on
        try:
            repaired: Plan = repair.without(known.plan, topology, known.gradient.tensors, self._dead)
            return replanned(known, repaired)
        except SpecError as error:
            names = ", ".join(topology.nodes[node].name for node in sorted(self._dead))
            told = WorkerError(f"the trial cannot go on without {names}: {error.problem}", fix=error.fix)
            told.process = self._unburied[0].process
            raise told from None

    def _nobody(self) -> WorkerError:
        first, *others = self._deaths
        more = f", and {len(others)} more" if others else ""
        error = WorkerError(
            f"no worker is left: {first.process} {first.how}{more}", fix="see why they died, or kill fewer"
        )
        error.process = first.process
        return error


def _unexplained(said: Mapping[str, Said]) -> WorkerError:
    """Make the error of a round in which nobody died, and nothing was done since the last time that somebody lost a
    neighbour."""
    first, *_ = said.values()
    return WorkerError(
        f"all processes are alive, but they cannot go on: {first.error}",
        fix="see whether a link is down; or give a longer failover time, which includes computing",
    )
