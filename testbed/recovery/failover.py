"""Failover on the harness's side, when nodes of a trial die: who is dead, and with what the others go on.

A round begins when a process is killed, or when one checks in since it lost a neighbour or waited for one in vain. All
are then called (those that still wait for connections look for that), and a round ends when each process has checked in
or is dead; :mod:`testbed.workloads.failover` has the workers' side. A process that has not checked in within the spec's
``failover`` time is taken for dead, and killed, so that it cannot come back. Then everybody gets a new job: a forest of
the living (:meth:`testbed.workloads.kinds.base.Kind.without`), and the iteration to go on with.

A process that ends with an error of its own has not died: the error is the trial's, as it ever was.

In Rina's paper agents and neighbours do this among themselves. Here the harness does it for them: the lab learns of a
process's end from the kernel.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.base.errors import SpecError, WorkerError
from testbed.control.feed import Feed
from testbed.files import foreign
from testbed.files.foreign import UnfitError
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.programs import Exit
from testbed.recovery.deaths import Course, Death, Recovery, who
from testbed.topologies.addressing import plan
from testbed.trial import job_files, phases
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.workloads import failover, kinds
from testbed.workloads.failover import checked_in, next_job, write_whole
from testbed.workloads.job import Failover, Peer, WorkerJob
from testbed.workloads.plan import Plan

LOOK_S = 0.1
"""Seconds between looks. Nodes wait for a round's end: see :data:`testbed.execution.supervise.POLL_S`."""
FIX_SAID = "see its log, and what else writes into its folder"


@dataclass(frozen=True)
class Said:
    """Message of a process when it leaves a generation: how many iterations it has done, and why it left."""

    completed: int
    error: str


class Coordinator:
    """Controller that watches over the processes of one job, in the thread that waits for them."""

    is_urgent = False

    def __init__(self, job: Job, files: Files, lab: Lab, congestion_control: str) -> None:
        self._job, self._files, self._lab, self._congestion_control = job, files, lab, congestion_control
        self._changes = [phases.Change(0, job, phases.BEGINNING)]
        self._deaths: list[Death] = []
        self._buried = 0
        self._fenced: set[str] = set()
        self._called_s: float | None = None
        self._recoveries: list[Recovery] = []

    @property
    def course(self) -> Course:
        """Course of the job."""
        split = phases.split(self._changes, self._job.iterations)
        return Course(split, tuple(self._recoveries), tuple(self._unburied))

    @property
    def _unburied(self) -> list[Death]:
        """Deaths since the last round ended."""
        return self._deaths[self._buried :]

    def look(self, feed: Feed) -> float:
        """Note which processes of the job died since the last look, forgive that, and take the round that it begins a
        step further.

        An error of a process's own is not forgiven.

        Raises:
            WorkerError: nobody is left, or the trial cannot go on though nobody died.
        """
        own = self._job.processes
        failed = [exit for exit in feed.failed if exit.process in own]
        killed = [exit for exit in failed if exit.status < 0]
        feed.forgive(killed)
        if len(killed) < len(failed):
            return math.inf
        self._deaths += [Death(exit.process, exit.node, exit.ended_s, self._how(exit)) for exit in killed]
        running = [process for process in feed.running if process in own]
        if not running:
            if self._dead >= set(self._job.plan.workers):
                raise self._nobody()
            return math.inf
        here = {process: said for process in running if (said := self._said(process)) is not None}
        if self._called_s is None and (killed or here):
            self._called_s = time.monotonic()
            write_whole(Path(self._folder) / failover.CALL, "")
        if self._called_s is not None:
            self._go_on(running, here)
        return LOOK_S

    def _go_on(self, running: Collection[str], here: Mapping[str, Said]) -> None:
        """Take a round further, in which those that are ``here`` have checked in."""
        if missing := set(running) - here.keys():
            self._fence(missing - self._fenced)
        else:
            self._send_on(here)

    @property
    def _dead(self) -> set[int]:
        return {death.node for death in self._deaths}

    @property
    def _generation(self) -> int:
        return len(self._recoveries)

    @property
    def _folder(self) -> str:
        return str(self._files.generation(self._generation, self._job.name))

    def _said(self, process: str) -> Said | None:
        """Read what a process said when it left the generation; None while it has not.

        Raises:
            WorkerError: it makes no sense.
        """
        try:
            return read_left(checked_in(self._files.samples(process), self._generation), self._job.iterations)
        except FileNotFoundError:
            return None
        except (OSError, UnfitError) as error:
            told = WorkerError(f"{process} left the others and said nothing that makes sense: {error}", fix=FIX_SAID)
            told.process = process
            raise told from None

    @property
    def _silence_s(self) -> float:
        return self._job.network.spec.silence_s

    def _name(self, node: int) -> str:
        return self._job.network.topology.nodes[node].name

    def _how(self, exit: Exit) -> str:
        if exit.process in self._fenced:
            return f"did not check in for {self._silence_s:g} s"
        return f"was killed by {signal.Signals(-exit.status).name}"

    def _fence(self, missing: Collection[str]) -> None:
        """Kill those who have not checked in for too long."""
        assert self._called_s is not None
        if time.monotonic() - self._called_s < self._silence_s:
            return
        for process in missing:
            self._fenced.add(process)
            self._lab.signal(process, signal.SIGKILL)

    def _send_on(self, said: Mapping[str, Said]) -> None:
        """Send everybody into the next generation: all who are alive have left this one."""
        by_node = {self._job.processes[process]: one for process, one in said.items()}
        workers = sorted(node for node in by_node if node in self._job.plan.workers)
        if not workers:
            raise self._nobody()
        first = max(by_node[worker].completed for worker in workers)
        ahead = next(worker for worker in workers if by_node[worker].completed == first)
        new = tuple(self._unburied)
        if not new and first == self._changes[-1].first:
            raise self._unexplained(said)
        job = self._without_the_dead() if new else self._changes[-1].job
        cause = phases.Cause(phases.DEATH, who(new)) if new else phases.Cause("silence", "no worker made progress")
        behind = tuple(worker for worker in workers if by_node[worker].completed < first)
        assert self._called_s is not None
        self._recoveries.append(Recovery(new, first, job, ahead, behind, self._called_s, time.monotonic()))
        self._buried, self._called_s = len(self._deaths), None
        self._changes.append(phases.Change(first, job, cause))
        with named_errors(self._files.work):
            self._write(said)

    def _without_the_dead(self) -> Job:
        """
        Raises:
            WorkerError: the scheme cannot do without them.
        """
        known, topology, dead = self._job, self._job.network.topology, self._dead
        repair = known.kind.repair
        assert repair is not None  # as the job goes on
        try:
            repaired: Plan = repair.without(known.plan, topology, known.gradient.tensors, dead)
            return phases.replanned(known, repaired)
        except SpecError as error:
            names = ", ".join(self._name(node) for node in sorted(dead))
            told = WorkerError(f"the trial cannot go on without {names}: {error.problem}", fix=error.fix)
            told.process = self._unburied[0].process
            raise told from None

    def _write(self, here: Collection[str]) -> None:
        """Write the next generation's folder and forest, then the jobs that lead there."""
        before = self._files.generation(self._generation - 1, self._job.name)
        folder = Path(self._folder)
        folder.mkdir()
        last = self._recoveries[-1]
        forest = folder / "forest.npz"
        kinds.save(last.job.plan, forest)
        found = {one.name: one for one in job_files.worker_jobs(last.job, self._files, self._congestion_control, {})}
        for process in here:
            one = WorkerJob.load(self._files.job(process))  # pace, slowdowns and jitter stay a worker's own
            if process in found:
                new = found[process]
                one = replace(
                    one, rank=new.rank, world=new.world, peers=new.peers, training=new.training, weights=new.weights
                )
            one = replace(one, forest=str(forest), probes=(), failover=self._failover(one.node, process in found))
            write_whole(next_job(str(before), process), one.text())

    def _failover(self, node: int, is_needed: bool) -> Failover:
        """Make a node's part in the next generation. A process that the forest no longer needs has nothing left to
        do."""
        last = self._recoveries[-1]
        taken = phases.contributions(phases.split(self._changes, last.first)) * self._job.batch
        fewer = last.first * last.job.world * self._job.batch
        state: tuple[Peer, ...] = ()
        if node == last.ahead:
            state = tuple(self._peer(node, other) for other in last.behind)
        elif node in last.behind:
            state = (self._peer(node, last.ahead),)
        return Failover(
            generation=self._generation,
            folder=self._folder,
            silence_s=self._silence_s,
            first=last.first if is_needed else self._job.iterations,
            shift=0 if self._job.compute.mode == "none" else taken - fewer,  # none repeats the first one's samples
            state=state,
        )

    def _peer(self, node: int, other: int) -> Peer:
        return job_files.peer(plan(self._job.network.topology), node, other, job_files.STATE_PORT)

    def _nobody(self) -> WorkerError:
        first, *others = self._deaths
        more = f", and {len(others)} more" if others else ""
        error = WorkerError(
            f"no worker is left: {first.process} {first.how}{more}", fix="see why they died, or kill fewer"
        )
        error.process = first.process
        return error

    def _unexplained(self, said: Mapping[str, Said]) -> WorkerError:
        """Make the error of a round in which nobody died, and nothing was done since the last time that somebody lost a
        neighbour."""
        first, *_ = said.values()
        return WorkerError(
            f"all processes are alive, but they cannot go on: {first.error}",
            fix="see whether a link is down; or give a longer failover time, which includes computing",
        )


def read_left(path: Path, iterations: int) -> Said:
    """Read what a process wrote when it left, of a trial of so many iterations.

    Raises:
        UnfitError: it says something else.
        OSError: it cannot be read.
    """
    found = foreign.read_object(path, path.parent)
    completed, error = found.get("completed"), found.get("error")
    if type(completed) is not int or not 0 <= completed <= iterations or not isinstance(error, str):
        raise UnfitError(f"completed is {completed!r:.40} and error {error!r:.40}")
    return Said(completed, error)
