"""The scheduler's process: it hears what is ready and what has arrived, and tells everybody what to do and when."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from socket import IPPROTO_TCP, TCP_MAXSEG, socket
from typing import Any

from testbed.base.errors import NeighbourError, WorkerError
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.planner import Command, Planner
from testbed.workloads.kinds.fabric.planning.takeover import Takeover
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.exchange import Exchange, check_left
from testbed.workloads.kinds.fabric.processes.messages import (
    Arrived,
    Back,
    Decided,
    End,
    Gone,
    Joined,
    Nears,
    Note,
    Ready,
    Renewed,
    Resume,
)
from testbed.workloads.link_rates import Follower
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.serving.watched import Seek
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.cost import goodput
from testbed.workloads.sync.tcp_info import HEADERS_BYTES

LAST_S = 0.002
"""Time (s), in the median, between the end of a transfer as its receiver expects it and the real end: a link of 50
Mbit/s takes as long for a large packet, which a receiver sees once all of it is there."""
LOOK_S = 0.02
"""Time (s) between two looks at the reports of the network monitor."""


class Scheduler(Exchange):
    """A scheduler, which runs a :class:`~testbed.workloads.kinds.fabric.planning.planner.Planner`."""

    def __init__(
        self,
        plan: Fabric,
        sockets: Mapping[int, socket],
        work: Work,
        rates: Follower,
        loss_s: float | None = None,
        seek: Seek | None = None,
    ) -> None:
        """Set up; ``rates`` has the reports of the network monitor; ``loss_s`` is as
        :attr:`testbed.workloads.job.WorkerJob.loss_s`, and ``seek`` finds a server that is started again, where one
        is."""
        super().__init__(plan.nodes[plan.scheduler], plan.nodes, sockets)
        self._plan, self._children = plan, sockets
        self._planner, self._updates = Planner(plan, work, hears_nears=True), work.updates
        self._ended: set[int] = set()
        self._is_ending = False
        self._loses_after_s, self._seek = loss_s, seek
        self._is_away = False
        self._outdated: set[int] = set()
        """Nodes whose notes may still be from before the last restart of the server."""
        self._history: int | None = 0
        """Number of restarts of the server; None while it is not known."""
        self._rates, self._looked_s = rates, 0.0
        self._took_s: list[float] = []
        """Time (s) that each batch took to plan."""
        self._takeover = Takeover(plan) if plan.replica is not None and loss_s is not None else None

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Schedule all updates of the trial, as one step.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``; names the workers that are waited for.
            WorkerError: a process is gone, or told what cannot be.
        """
        replica = self._plan.replica
        losable = self._plan.workers if replica is None else (*self._plan.workers, self._plan.server, replica)
        returning = {} if self._seek is None else {self._plan.server: self._seek}
        self._watch(losable, self._loses_after_s, returning)
        self._until(self._has_all, silence_s)
        self._end_servers()  # first, for daemons that end close their connections with them
        self._until(
            lambda: self._ended >= {*self._plan.others} - {self._plan.scheduler} - self._former.keys(), silence_s
        )
        for node in self._plan.workers:
            self._say(node, End())
        self._over = True
        self._until(lambda: not self._sending(), silence_s)
        yield total

    def _end_servers(self) -> None:
        """Tell the servers to end; each tells its replica."""
        self._is_ending = True
        for server in self._plan.servers if not self._plan.roots else ():
            self._say(server, End())

    @property
    def _is_halted(self) -> bool:
        """Whether nothing is planned now."""
        return self._over or self._is_away or (self._takeover is not None and self._takeover.is_open)

    def _has_all(self) -> bool:
        """Whether no process that is left has anything to compute, or to be told."""
        has_ended = self._ended >= {*self._plan.workers} - self._former.keys()
        return has_ended and not self._is_halted and self._planner.is_replicated

    def said(self) -> dict[str, Any]:
        """Report the order of the updates that were sent, and the transfers: from, to, bytes, numbers of the updates
        (none for weights), shard, begin and end as planned, and when it was there, in seconds of this process's clock.
        ``clock_s`` is what that clock says now, and ``time`` the same moment, which a lab whose hosts have clocks of
        their own converts to ours (:mod:`testbed.lab.baremetal.controller.fleet`). ``plans_s`` is what each batch took
        to plan."""
        now_s = time.monotonic()
        told = {"time": now_s, "clock_s": now_s, "plans_s": self._took_s}
        return told | {"order": self._planner.order, "transfers": self._planner.traffic.told()}

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        now_s, node = time.monotonic(), connection.node
        try:
            if isinstance(note, Resume) and node == self._plan.server and self._is_away:
                self._resume(note, now_s)
            elif isinstance(note, Renewed):
                if note.history == self._history:
                    self._outdated.discard(node)
            elif node in self._outdated and not isinstance(note, End):
                return
            elif isinstance(note, Ready):
                self._check_own(note.update, node)
                self._planner.hear(node, note, now_s)
            elif isinstance(note, Arrived | Nears):
                self._moves(connection, note, now_s)
            elif isinstance(note, Decided) and node == self._teller(note):
                self._planner.hear(node, note, now_s)
                if self._takeover:
                    self._takeover.decided(note.entries)
            elif isinstance(note, Joined) and self._takeover:
                self._takeover.joined(node, note)
                self._take_over(now_s)
            elif isinstance(note, Gone) and node in (self._plan.server, self._plan.replica):
                self._check_losable(note.node)
                self._at(now_s, partial(self._lose_as_told, node, note.node))
            elif isinstance(note, End):
                self._ended.add(node)
                self._check_none_has_ended()
            else:
                raise self._misfit(connection, note)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _moves(self, connection: Connection, note: Arrived | Nears, now_s: float) -> None:
        """Note that a transfer has arrived, or nearly. A server that lost a node sends straight what was to go over
        that node, and this process may hear of the loss a little later. Raises ValueError: nobody was to send it, and
        nobody may be lost."""
        try:
            self._planner.hear(connection.node, note, now_s, LAST_S)
        except ValueError:
            if self._loses_after_s is None:
                raise
            self._at(now_s + self._loses_after_s, partial(self._hear_late, connection, note))

    def _hear_late(self, connection: Connection, note: Arrived | Nears) -> None:
        """Raises WorkerError: nobody was to send it, and nobody was lost."""
        if connection.node in self._former or connection.node in self._outdated:
            return
        try:
            self._planner.hear(connection.node, note, time.monotonic(), LAST_S)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _check_own(self, number: int, node: int) -> None:
        """Check that an update is one of the worker's own. A worker that is faster than all others may make nearly all
        updates, but no more iterations than there are updates. Raises ValueError: the worker on ``node`` has no update
        of this number."""
        world = len(self._plan.workers)
        if not 0 <= number < self._updates * world:
            raise ValueError(f"there is no update {number}: each of {world} workers has at most {self._updates}")
        own = self._plan.workers[number % world]
        if own != node:
            raise ValueError(f"update {number} is the worker's on node {own}, not on node {node}")

    def _check_losable(self, node: int) -> None:
        """Raises ValueError: the others cannot go on without this node."""
        allowed = self._losable or self._plan.workers
        if node not in allowed:
            raise ValueError(f"node {node} may not be lost, only nodes {list(allowed)}")

    def _lose_as_told(self, teller: int, node: int) -> None:
        """Note that a process has lost a node. The node may have told this process that it ends, and not the other one.
        If the node has lost the teller, too, and said so first, the teller is out."""
        if teller in self._former:
            return
        had_left = node in self._ended and node in self._former
        self._ended.discard(node)
        if had_left:
            self._has_lost(node)
        else:
            self._lose(node)

    def _has_lost(self, node: int) -> None:
        """Raises NeighbourError: no worker is left, or neither server nor replica, or the server and a worker are
        lost."""
        if node == self._plan.server and self._seek is not None:
            self._await_server(self._seek)
            return
        if node in self._plan.workers:
            self._lose_worker(node)
            return
        if self._plan.replica is None or (self._takeover and self._takeover.has_begun):
            problem = f"{self._names[node]} was lost, so neither server nor replica is left"
            raise NeighbourError(problem, fix="kill only one of them")
        if node == self._plan.server and self._plan.replica in self._ended:
            return  # the server had told it to end: it has all
        for other in self._by_node:
            self._say(other, Gone(node, ()))
        if node != self._plan.server:
            self._planner.leave_replica(time.monotonic())
            self._plan = self._plan.unreplicated
        elif self._takeover:
            self._takeover.has_begun = True
        else:
            raise NeighbourError(
                f"{self._names[node]} was lost after a worker, and its replica cannot serve without that",
                fix="kill only the server, or only others",
            )

    def _lose_worker(self, node: int) -> None:
        """Go on without a worker. If there is a replica, the server feeds it from now on. Raises NeighbourError: no
        worker is left, or the server is lost, too."""
        if self._takeover and self._takeover.has_begun:
            raise NeighbourError(
                f"{self._names[node]} was lost after the server, and its replica cannot go on without it",
                fix="kill only the server, or only others",
            )
        if self._takeover:
            self._takeover = None
            self._planner.leave_replica(time.monotonic())
            for other in self._by_node.keys() & {*self._plan.workers}:
                self._say(other, Gone(node, ()))
        self._planner.lose(node, time.monotonic())
        check_left(self._plan, self._former.keys())

    def _take_over(self, now_s: float) -> None:
        """Let the replica serve once all have joined. Nothing is planned before that."""
        takeover = self._takeover
        if takeover is None or not takeover.is_complete:
            return
        assert self._plan.replica is not None
        self._planner.take_over(takeover.unheard, takeover.unanswered, now_s)
        self._plan = self._plan.taken_over
        for note in takeover.notes:
            self._say(self._plan.server, note)
        if self._is_ending:
            self._end_servers()

    def _await_server(self, seek: Seek) -> None:
        """Find the server that is started again; until it reports its state, nothing is planned. Raises WorkerError: a
        worker has ended."""
        lost_s = time.monotonic()
        self._is_away, self._outdated, self._history = True, {*self._plan.workers}, None
        self._check_none_has_ended()
        self._has_again(self._plan.server, seek(self._stay_alive))
        self._say(self._plan.server, Back(0, time.monotonic() - lost_s))

    def _check_none_has_ended(self) -> None:
        """Raises WorkerError: a worker has, with weights of a server before the one that is to come."""
        ended = [self._plan.nodes[node] for node in sorted(self._outdated & self._ended)]
        if ended:
            raise WorkerError(
                f"the server on {self._plan.nodes[self._plan.server]} was lost when workers had ended, with weights "
                f"that are lost with it: {', '.join(ended)}",
                fix="kill the server earlier",
            )

    def _resume(self, note: Resume, now_s: float) -> None:
        self._is_away, self._history = False, note.history
        self._planner = self._planner.resumed(note, now_s)
        for node in self._plan.workers:
            self._say(node, replace(note, entries=()))

    def _teller(self, note: Decided) -> int:
        (number, _), *_ = note.entries
        return self._plan.servers_at(number // len(self._plan.workers))[0]

    def _look_at_rates(self) -> None:
        """Read the reports of the monitor, and hear each as late as the options say."""
        try:
            for seen_s, rates_bps in self._rates.new():
                due_s = seen_s + self._plan.options.lag_s
                self._at(due_s, partial(self._hear_rates, rates_bps, due_s))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise WorkerError(
                f"what the network monitor tells cannot be read: {error}", fix="see who else writes into its file"
            ) from error

    def _hear_rates(self, rates_bps: Mapping[int, float], now_s: float) -> None:
        """Take new rates of links, which may be from before a restart of the server."""
        self._planner.rates(rates_bps, now_s)

    def _patience_s(self, timeout_s: float) -> float:
        due_s = min(math.inf if self._is_halted else self._planner.next_s, self._looked_s + LOOK_S)
        return min(super()._patience_s(timeout_s), max(0.0, due_s - time.monotonic()))

    def _move(self) -> bool:
        if time.monotonic() >= self._looked_s + LOOK_S:
            self._looked_s = time.monotonic()
            self._look_at_rates()
        moved, said = super()._move(), list[Command]()
        if not self._is_halted:
            before, begun_s = self._planner.batches, time.monotonic()
            said = self._planner.tick(begun_s)
            if self._planner.batches > before:
                self._took_s.append(round(time.monotonic() - begun_s, 6))
        for node, note in said:
            if self._takeover:
                self._takeover.told(note)
            self._say(node, note)
        if said:
            super()._move()
        return moved or bool(said)

    def _waits_for(self, connection: Connection) -> bool:
        """Whether a neighbour may not have ended yet: a server or replica may once it has said so; daemons go on until
        they are told."""
        return not self._over and (connection.node in self._plan.workers or connection.node not in self._ended)

    def _awaited(self) -> str:
        others = {*self._plan.workers, *self._plan.others} - {self._plan.scheduler}
        silent = sorted(others - self._ended - self._former.keys())
        return f"for {', '.join(self._plan.nodes[node] for node in silent)}"


def goodput_of(sock: socket) -> float:
    """Return the share of a link's rate that payload gets, given the segments that a connection is cut into."""
    segment_bytes = sock.getsockopt(IPPROTO_TCP, TCP_MAXSEG)
    return goodput(segment_bytes + HEADERS_BYTES - 14)
