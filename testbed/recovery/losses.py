"""Losses of a job's processes, without which the others go on by themselves: no plan is made, nobody rejoins.

Which these may be its kind declares (:meth:`testbed.workloads.kinds.base.Kind.survives`). The others notice a loss in
band. The one that serves tells of it in its last line, under ``lost``: the node, when its loss was noticed, and when
weights were changed next after that. Until then nobody here knows whether a process that stands still is lost to the
others. So a process that is still there when the server has told that its node is lost is killed: the trial must end.

Others are started again from their last checkpoint when they were killed
(:meth:`testbed.workloads.kinds.base.Kind.returns`). That happens as often as needed, if no other process is lost: a new
one would wait for it in vain. One of them that stands still is lost to the others, too, but it might go on: so it is
ended first, and then they are told to look for a new one. What a node's links do is not changed: as long as they carry
nothing, the others look in vain.

A process that ended because it has lost a neighbour is one that the others have lost, or it must explain itself: if
nobody on its node died, and nobody tells that the node was lost, its error is the trial's.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from testbed.control import endings
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.worker_lines import check_said
from testbed.lab.base import Lab
from testbed.lab.programs import Exit
from testbed.recovery.deaths import Course, Loss, Noticed, undisturbed
from testbed.topologies.model import Topology
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.job import Job

_CLOCKS_S = 0.05
"""Seconds by which the clocks of two machines may differ at most."""
_LOOK_S = 0.1
"""The most seconds between looks at whether a process stands still."""


class Bystander:
    """Controller that watches over the processes of one job that survives losses, in the thread that waits for them."""

    is_urgent = False

    def __init__(self, job: Job, files: Files, lab: Lab) -> None:
        self._job, self._files, self._lab = job, files, lab
        self._gone: list[Exit] = []
        self._returned: list[Exit] = []
        """Exits of processes that were started again."""
        self._fenced: list[Exit] = []
        """Exits of processes that had stood still, and were ended here to be started again."""
        self._still_s: dict[str, float] = {}
        """Moments since when processes stand still."""
        self._ending: set[str] = set()
        """Processes that stand still and are ended here now."""
        self._looked_s = -math.inf
        self._killed: set[str] = set()
        self._read = 0
        self._noticed: list[Noticed] = []

    def look(self, feed: Feed) -> float:
        """Forgive the exits of processes that may be lost, and end those that the others have told to be lost.

        Raises:
            WorkerError: no worker is left; names one that may not be lost, if that has failed, too.
        """
        mine = [exit for exit in feed.failed if exit.process in self._job.survives and self._is_loss(exit)]
        if not self._returned:  # who was started again needs all others
            feed.forgive(mine)
            self._gone += mine
        self._start_again(feed)
        self._end_still(feed)
        running = [process for process in feed.running if process in self._job.processes]
        gone = {exit.process for exit in self._gone}
        if gone.issuperset(self._job.workers):
            raise endings.died([*feed.failed, *self._gone], running, self._files)
        if len(running) + len(gone) < len(self._job.processes):  # somebody has ended well
            self._fence(feed, running)
        return math.inf

    def _start_again(self, feed: Feed) -> None:
        """Start those processes again that were killed and have a checkpoint, if all others are there."""
        killed = [exit for exit in feed.failed if exit.process in self._job.returns and exit.status < 0]
        if len(killed) < len(feed.failed):
            return
        for exit in killed:
            if self._may_return(exit.process, feed):
                self._lab.launch([job_files.again(exit.process, self._job, self._files)])
                feed.forgive([exit])
                feed.runs_again(exit.process)
                self._returned.append(exit)
                self._fenced += [exit] if exit.process in self._ending else []
                self._ending.discard(exit.process)

    def _end_still(self, feed: Feed) -> None:
        """End those processes for good that can be started again, and have stood still for so long that the others lose
        them."""
        after_s, now_s = self._job.network.spec.silence_s, time.monotonic()
        if not self._job.returns or now_s < self._looked_s + min(_LOOK_S, after_s / 8):
            return
        self._looked_s = now_s
        still = ({*self._lab.stopped()} & {*feed.running} & self._job.returns) - self._ending
        self._still_s = {process: self._still_s.get(process, now_s) for process in still}
        for process, since_s in self._still_s.items():
            if since_s + after_s <= now_s and self._may_return(process, feed):
                self._lab.tell(self._files.fenced(self._job.name), {"time": now_s, "process": process})
                self._lab.signal(process, signal.SIGKILL)
                self._ending.add(process)

    def _may_return(self, process: str, feed: Feed) -> bool:
        """Whether a process has a checkpoint, and all others are there."""
        has_checkpoint = os.path.lexists(self._files.checkpoint(process))
        return has_checkpoint and not self._gone and {*self._job.workers} <= {*feed.running}

    def _is_loss(self, exit: Exit) -> bool:
        """Whether a process was killed, or has ended because it had lost a neighbour."""
        return exit.status < 0 or bool(endings.last_words(self._files.samples(exit.process)).get("elsewhere"))

    def _fence(self, feed: Feed, running: Collection[str]) -> None:
        """Kill what runs on nodes that are lost."""
        new = feed.lines(self._read)
        self._read += len(new)
        working = {self._job.processes[worker] for worker in self._job.workers}
        serving = {process for process, node in self._job.processes.items() if node not in working}
        self._noticed += noticed(line.said for line in new if line.process in serving)
        lost = {one.node for one in self._noticed}
        for process in running:
            if self._job.processes[process] in lost and process in self._job.survives and process not in self._killed:
                self._killed.add(process)
                self._lab.signal(process, signal.SIGKILL)

    def course(self, records: Sequence[Record]) -> Course:
        """Course of the job; ``records`` are of what was done to it.

        Raises:
            WorkerError: a process has lost a neighbour that nobody else has lost.
        """
        lost = {one.node for one in self._noticed} | {exit.node for exit in self._all_gone if exit.status < 0}
        unexplained = [exit for exit in self._gone if exit.node not in lost]
        if unexplained:
            raise endings.died(unexplained, [], self._files)
        found = [self._loss(node, records) for node in sorted(lost)]
        return undisturbed(self._job, found)

    @property
    def _all_gone(self) -> list[Exit]:
        return [*self._gone, *self._returned]

    def _loss(self, node: int, records: Sequence[Record]) -> Loss:
        exits = [exit for exit in self._all_gone if exit.node == node]
        hows = {exit.process: self._how(exit) for exit in exits}
        told = next((one for one in self._noticed if one.node == node), None)
        at_s = min((exit.ended_s for exit in exits), default=None)
        before_s = told.at_s + _CLOCKS_S if told else math.inf
        hit = hit_s(records, self._job.network.topology, node, hows, before_s) if told or exits else None
        return Loss(node, hows, at_s, hit, told, self._roles(node, exits))

    def _roles(self, node: int, exits: Sequence[Exit]) -> tuple[str, ...]:
        """Roles of a node's processes that were killed, or, if nobody knows which were, of all there."""
        job = self._job
        own = [process for process, at in job.processes.items() if at == node]
        killed = [process for process in own if any(exit.process == process and exit.status < 0 for exit in exits)]
        return tuple(job.role(process) for process in killed or own)

    def _how(self, exit: Exit) -> str:
        if exit.process in self._killed:
            return "was lost to the others"
        if exit in self._fenced:
            return "stood still, was ended and was started again"
        if exit in self._returned:
            return f"{endings.ending(exit.status)} and was started again"
        return endings.ending(exit.status) if exit.status < 0 else "left"


def noticed(lines: Iterable[Mapping[str, Any]]) -> list[Noticed]:
    """Read what processes tell in their last lines of nodes that they have lost, on our clock. A line that is not as it
    should be counts for nothing here; the trial is refused for it when its samples are read."""
    return [
        Noticed(
            node,
            at_s + ahead_s,
            None if commit_s is None else commit_s + ahead_s,
            tuple((rank, iteration) for found in updates for rank, iteration in found),
        )
        for line in lines
        if line["kind"] == "done" and line.get("lost") and _is_right(line)
        for ahead_s in [line["time"] - line["clock_s"]]
        for node, at_s, commit_s, *updates in line["lost"]
    ]


def _is_right(line: Mapping[str, Any]) -> bool:
    try:
        check_said(line)
    except ValueError:
        return False
    return line.get("time") is not None and line.get("clock_s") is not None


def hit_s(
    records: Sequence[Record], topology: Topology, node: int, processes: Collection[str], before_s: float
) -> float | None:
    """Find the last moment, no later than ``before_s``, at which something was done that ends the processes of a node,
    or lets them stand still, or cuts the node off; None if nothing was. A process that had ended by itself may be hit
    later."""
    names = {topology.nodes[node].name, *processes}
    ports = topology.ports[node]
    links = {*ports, *(link ^ 1 for link in ports)}
    hits = [
        record.begun_s
        for record in records
        if record.begun_s is not None
        and record.begun_s <= before_s
        and (
            not names.isdisjoint({*record.kills, *record.stops})
            or any(change.blocked and change.directed_link in links for change in record.links)
        )
    ]
    return max(hits, default=None)
