"""Failover on the harness's side, when nodes of a trial die: who is dead, and with what the others go on.

:mod:`testbed.recovery.rounds` decides; here is what touches the lab and files.

A round begins when a process is killed, or when one checks in since it lost a neighbour or waited for one in vain. All
are then called (those that still wait for connections look for that), and a round ends when each process has checked in
or is dead; :mod:`testbed.workloads.failover` has the workers' side. A process that has not checked in within the spec's
``failover`` time is taken for dead, and killed, so that it cannot come back. Then everybody gets a new job: a forest of
the living (:meth:`testbed.workloads.kinds.parts.Repair.without`), and the iteration to go on with.

A process that ends with an error of its own has not died: the error is the trial's, as it ever was.

In Rina's paper agents and neighbours do this among themselves. Here the harness does it for them: the lab learns of a
process's end from the kernel.
"""

from __future__ import annotations

import math
import signal
import time
from dataclasses import replace
from pathlib import Path

from testbed.base.errors import WorkerError
from testbed.control.feed import Feed
from testbed.files import foreign
from testbed.files.foreign import UnfitError
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.recovery.deaths import Course
from testbed.recovery.rounds import Call, CheckedIn, Died, Event, Fence, Instruction, Looked, Rounds, Said, SendOn
from testbed.topologies.addressing import plan
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.workloads import failover, kinds
from testbed.workloads.failover import checked_in, next_job, write_whole
from testbed.workloads.job import Failover, Peer, WorkerJob

LOOK_S = 0.1
"""Seconds between looks. Nodes wait for a round's end: see :data:`testbed.execution.supervise.POLL_S`."""
FIX_SAID = "see its log, and what else writes into its folder"


class Coordinator:
    """Controller that watches over the processes of one job, in the thread that waits for them."""

    is_urgent = False

    def __init__(self, job: Job, files: Files, lab: Lab, congestion_control: str) -> None:
        self._job, self._files, self._lab, self._congestion_control = job, files, lab, congestion_control
        self._rounds = Rounds(job)

    @property
    def course(self) -> Course:
        """Course of the job."""
        return self._rounds.course

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
        running = tuple(process for process in feed.running if process in own)
        left = {process: said for process in running if (said := self._said(process)) is not None}
        events: list[Event] = [*map(Died, killed), *(CheckedIn(process, said) for process, said in left.items())]
        for event in (*events, Looked(time.monotonic(), running)):
            for instruction in self._rounds.handle(event):
                self._carry_out(instruction)
        return LOOK_S if running else math.inf

    def _carry_out(self, told: Instruction) -> None:
        if isinstance(told, Call):
            write_whole(Path(self._folder(told.generation)) / failover.CALL, "")
        elif isinstance(told, Fence):
            self._lab.signal(told.process, signal.SIGKILL)
        else:
            with named_errors(self._files.work):
                self._write(told)

    def _folder(self, generation: int) -> str:
        return str(self._files.generation(generation, self._job.name))

    def _said(self, process: str) -> Said | None:
        """Read what a process said when it left the generation; None while it has not.

        Raises:
            WorkerError: it makes no sense.
        """
        try:
            return read_left(checked_in(self._files.samples(process), self._rounds.generation), self._job.iterations)
        except FileNotFoundError:
            return None
        except (OSError, UnfitError) as error:
            told = WorkerError(f"{process} left the others and said nothing that makes sense: {error}", fix=FIX_SAID)
            told.process = process
            raise told from None

    def _write(self, told: SendOn) -> None:
        """Write the next generation's folder and forest, then the jobs that lead there."""
        folder, job = Path(self._folder(told.generation + 1)), told.recovery.job
        folder.mkdir()
        forest = folder / "forest.npz"
        kinds.save(job.plan, forest)
        new = {made.name: made for made in job_files.worker_jobs(job, self._files, self._congestion_control, {})}
        for process in told.here:
            own = WorkerJob.load(self._files.job(process))  # pace, slowdowns and jitter stay a worker's own
            if process in new:
                made = new[process]
                own = replace(
                    own,
                    rank=made.rank,
                    world=made.world,
                    peers=made.peers,
                    training=made.training,
                    weights=made.weights,
                )
            own = replace(own, forest=str(forest), probes=(), failover=self._failover(told, own.node, process in new))
            write_whole(next_job(self._folder(told.generation), process), own.text())

    def _failover(self, told: SendOn, node: int, is_needed: bool) -> Failover:
        """Make a node's part in the next generation. A process that the forest no longer needs has nothing left to
        do."""
        last = told.recovery
        fewer = last.first * last.job.world * self._job.batch
        state: tuple[Peer, ...] = ()
        if node == last.ahead:
            state = tuple(self._peer(node, other) for other in last.behind)
        elif node in last.behind:
            state = (self._peer(node, last.ahead),)
        return Failover(
            generation=told.generation + 1,
            folder=self._folder(told.generation + 1),
            silence_s=self._job.network.spec.silence_s,
            first=last.first if is_needed else self._job.iterations,
            # A mode of none repeats the samples of the first iteration.
            shift=0 if self._job.compute.mode == "none" else told.taken - fewer,
            state=state,
        )

    def _peer(self, node: int, other: int) -> Peer:
        return job_files.peer(plan(self._job.network.topology), node, other, job_files.STATE_PORT)


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
