"""A worker's side of MLfabric: it pushes an update to the daemon on its host, and gets weights from there.

This is the paper's interface (Table 1). Workers of a trial (:class:`Client`) and programs of one's own
(:mod:`~testbed.workloads.kinds.fabric.api`) use the same.

While the daemon sends, the update is in shared memory, so the worker's own array may change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from socket import socket
from typing import TYPE_CHECKING

import numpy as np

from testbed.base.errors import SpecError
from testbed.workloads.kinds.fabric import fates
from testbed.workloads.kinds.fabric.fates import Fate, Learnt
from testbed.workloads.kinds.fabric.fields import shown
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.exchange import Exchange, check_floats, check_room
from testbed.workloads.kinds.fabric.processes.messages import Given, Note, Push
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.session import WeightsSession

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


class Worker(Exchange):
    """Pushes updates, one at a time, and gets weights.

    Attributes:
        server: the name of the server.
        goes_on: whether there is another update to push.
        version: how many updates the weights contain that came last.
        fate: what became of the last update (:class:`~testbed.workloads.kinds.fabric.fates.Fate`); None before the
            first one.
    """

    leaves_sums = False

    def __init__(self, plan: Fabric, node: int, sock: socket, memory: Memory, timeout_s: float) -> None:
        """Set up; ``timeout_s`` is how long :meth:`get` waits at most while nothing moves."""
        name = plan.nodes[node]
        super().__init__(name, {node: f"{name}.daemon"}, {node: sock})
        self._node, self._memory, self._timeout_s = node, memory, timeout_s
        self._parents = (node,)
        self._rank, self._world = plan.workers.index(node), len(plan.workers)
        self._iteration = self._known = 0
        self._pushed: Push | None = None
        self._given: Given | None = None
        self.server = plan.nodes[plan.server]
        self.goes_on, self.version = True, 0
        self.fate: fates.Fate | None = None

    # The interface of Table 1

    def push(self, server: str, update: Floats, update_norm: float) -> None:
        """Give an update to the server; returns at once. The scheduler says when it is sent, and whether.

        Args:
            server: :attr:`server`.
            update: float32[floats]; it may change afterwards.
            update_norm: its Euclidean norm, in the units of the weights, by which the scheduler bounds the replica's
                divergence.

        Raises:
            SpecError: there is no such server, the update or the norm is none, the weights that follow the last update
                have not been got, or the training has ended.
            WorkerError: the daemon is gone.
        """
        self._check(server, update)
        try:
            norm = float(update_norm)
        except (TypeError, ValueError, OverflowError):
            norm = math.nan
        if not 0 <= norm < math.inf:
            raise SpecError(
                f"{self._name} pushes an update with a norm of {shown(update_norm)}",
                fix="give its Euclidean norm, a finite number; if that is none, the training has diverged",
            )
        if not self.goes_on:
            raise SpecError(
                f"{self._name} pushes an update, and the training has ended", fix="push only while goes_on is true"
            )
        if self._pushed is not None:
            raise SpecError(
                f"{self._name} pushes an update before it got the weights that follow the last one",
                fix="call get after each push",
            )
        np.copyto(self._memory.update, update)
        self._pushed, self._given = Push(self._iteration, self.version, norm), None
        self._say(self._node, self._pushed)
        self._move()

    def get(self, server: str, model: Floats, timeout_s: float | None = None) -> None:
        """Wait until the last update was committed or dropped, and read the weights that the server sent then.

        Args:
            server: :attr:`server`.
            model: float32[floats]; the weights come here.
            timeout_s: how long to wait at most while nothing moves, if not as long as usual.

        Raises:
            SpecError: there is no such server, the array is none, or no update was pushed.
            TrialTimeoutError: nothing moved for that time.
            WorkerError: the daemon is gone.
        """
        self._check(server, model)
        check_room(model, f"an array of {self._name}")
        if self._pushed is None:
            raise SpecError(
                f"{self._name} gets weights, and has pushed no update since the last ones",
                fix="call push first; the first weights are those that all processes begin with",
            )
        self._until(lambda: self._given is not None, self._timeout_s if timeout_s is None else timeout_s)
        np.copyto(model, self._memory.weights)
        self._pushed = None
        self._iteration += 1

    def all_reduce(self, update: Floats) -> None:
        """Replace an update by the sum of all workers' updates (MLfabric section 6): a push to the process that adds
        them up, and a get from there.

        Args:
            update: float32[floats].

        Raises:
            SpecError: the server has weights and makes no sums; or as :meth:`push`.
            TrialTimeoutError, WorkerError: as :meth:`get`.
        """
        if not self.leaves_sums:
            raise SpecError(
                f"{self._name} asks for a sum, and {self.server} has weights", fix="give all processes sums=True"
            )
        self.push(self.server, update, 0.0)  # without a replica nobody asks for norms
        self.get(self.server, update)

    def _check(self, server: str, floats: Floats) -> None:
        if self._epoll.closed:
            raise SpecError(f"{self._name} was closed", fix="push and get before the end of its with statement")
        if server != self.server:
            raise SpecError(f"{self._name} knows no server {server!r}", fix=f"take its attribute server: {self.server}")
        check_floats(floats, len(self._memory.update), f"an array of {self._name}")

    # As a process

    @property
    def _wires(self) -> Sequence[Connection]:
        """Connections over a network: none, because the worker's daemon is on its own host."""
        return ()

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        if not isinstance(note, Given) or self._pushed is None or self._given is not None:
            raise self._misfit(connection, note)
        mine = self._rank + self._world * self._iteration
        try:
            known = self._known if note.kept is None else min(self._known, note.kept)
            new = fates.learn(note.begin, note.begin_version, note.entries, known, mine, self._world)
        except ValueError as error:
            raise self._misfit(connection, f"weights after which {error}") from error
        self._learnt(new, note.held_s)
        self._known, self.version, self.goes_on, self.fate = new.known, note.version, note.goes_on, new.fate
        self._given = note

    def _learnt(self, new: Learnt, held_s: float) -> None:
        """React to the news that come with new weights, which were held back for ``held_s``."""

    def _waits_for(self, connection: Connection) -> bool:
        return self.goes_on or (self._pushed is not None and self._given is None)

    def _awaited(self) -> str:
        return "for its daemon"


class Client(WeightsSession, Worker):
    """A trial's worker, as its session sees it: an iteration is ``start``, when the gradient is complete, then
    ``wait``, until newer weights are in the participant's weights. Its gradient does not change in between.

    Attributes:
        seen: of the last update: its number ``update`` among all that was decided, the ``version`` it was computed on,
            its ``staleness``, its ``fate`` (:mod:`~testbed.workloads.kinds.fabric.fates`), and how long its weights
            were held back, ``held_s``.
    """

    def __init__(
        self, plan: Fabric, node: int, sock: socket, memory: Memory, part: Participant, scale: float = 0.0
    ) -> None:
        """Set up; the norm of a gradient times ``scale`` is that of the change of the weights; 0 if nobody needs
        norms."""
        super().__init__(plan, node, sock, memory, math.inf)
        self._part, self._scale = part, scale

    @property
    def _model(self) -> Floats:
        """The array into which new weights are copied."""
        return self._part.weights

    def start(self, bucket: int) -> None:
        """Push the gradient, which is complete. There is one bucket, 0.

        Raises:
            WorkerError: the daemon is gone.
        """
        self._check_start(bucket, self._iteration)
        gradient = self._part.gradient
        norm = self._scale * float(np.linalg.norm(gradient)) if self._scale else 0.0
        self.push(self.server, gradient, norm if math.isfinite(norm) else 0.0)  # training diverged, as its loss tells

    def wait(self, timeout_s: float) -> float:
        """Wait until newer weights have come, and return the moment (``time.monotonic``) at which they were complete.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``.
            WorkerError: the daemon is gone.
        """
        self.get(self.server, self._model, timeout_s)
        return time.monotonic()

    def _learnt(self, new: Learnt, held_s: float) -> None:
        stale = 0 if new.fate == Fate.LOST else new.version - self.version  # a lost version is no point of time
        told = {"update": new.at, "version": self.version, "staleness": stale}
        self._seen = {**told, "fate": int(new.fate), "held_s": held_s}
        self._part.learn(new.applied, (0, len(self._memory.weights)))
        if not new.fate.is_applied:
            self._part.dropped(self._iteration)
