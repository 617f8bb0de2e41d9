"""A worker's side: it gives its update to the daemon on its host, and takes weights from there.

While the daemon sends, the update is in shared memory, so the worker's own gradient may change; it does not before
newer weights have come, which is when the update has been applied or dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from socket import socket

import numpy as np

from workloads.kinds.fabric import fates
from workloads.kinds.fabric.processes.exchange import Exchange, Floats
from workloads.kinds.fabric.processes.messages import Given, Note, Push
from workloads.kinds.fabric.processes.shared import Memory
from workloads.sync.connection import Connection
from workloads.sync.session import Model
from workloads.sync.tcp_info import Sent

Learn = Callable[[Sequence[tuple[int, int]]], None]


class Client(Exchange):
    """A :class:`workloads.sync.session.Session`: an iteration is ``start``, when the gradient is complete, then
    ``wait``, until newer weights are in ``weights``.

    Attributes:
        goes_on: whether there is an iteration to do.
        seen: of the last update: its number ``update`` among all that was decided, the ``version`` it was computed on,
            its ``staleness``, its ``fate`` (:mod:`~workloads.kinds.fabric.fates`), and how long its weights were held
            back, ``held_s``.
    """

    leaves_sums = False

    def __init__(
        self,
        name: str,
        node: int,
        rank: int,
        world: int,
        sock: socket,
        memory: Memory,
        gradient: Floats,
        weights: Floats,
        learn: Learn = lambda _updates: None,
        scale: float = 0.0,
        dropped: Callable[[int], None] = lambda _iteration: None,
    ) -> None:
        """``learn`` is told (rank, iteration) of the updates that are new in weights that come. ``scale`` is what a
        gradient's norm times becomes that of the change of the weights; 0 if nobody needs norms. ``dropped`` is told
        the iteration whose update is in no weights."""
        super().__init__(name, {node: f"{name}.daemon"}, {node: sock})
        self._node, self._rank, self._world = node, rank, world
        self._memory, self._gradient, self._weights = memory, gradient, weights
        self._learn, self._scale, self._dropped = learn, scale, dropped
        self._iteration = self._version = 0
        self._known = 0
        self._complete, self._complete_s = False, 0.0
        self._seen: Mapping[str, float] = {}
        self.goes_on = True

    @property
    def congestion_control(self) -> str:
        """It has no connection of TCP."""
        return ""

    @property
    def wire_bytes(self) -> int:
        """Nothing goes over a wire."""
        return 0

    @property
    def sent(self) -> dict[int, Sent]:
        """Nothing goes over a wire."""
        return {}

    def start(self, bucket: int) -> None:
        """The gradient is complete: hand it over. There is one bucket, 0.

        Raises:
            WorkerError: the daemon is gone.
        """
        if bucket or not self.goes_on:
            raise ValueError(f"bucket {bucket} of iteration {self._iteration}, and goes_on is {self.goes_on}")
        self._complete = False
        np.copyto(self._memory.update, self._gradient)
        norm = self._scale * float(np.linalg.norm(self._gradient)) if self._scale else 0.0
        if not math.isfinite(norm):
            norm = 0.0  # training diverged, which its loss tells
        self._say(self._node, Push(self._iteration, self._version, norm))
        self._move()

    def wait(self, timeout_s: float) -> float:
        """Return when newer weights have come; returns the moment (``time.monotonic``) at which they were complete.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``.
            WorkerError: the daemon is gone.
        """
        self._until(lambda: self._complete, timeout_s)
        self._iteration += 1
        return self._complete_s

    def barrier(self, timeout_s: float) -> None:
        """Return once every process of the trial has called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`wait`.
        """
        self._barriers += 1
        self._say_barrier(self._node)
        self._until(lambda: self.met[self._node] == self._barriers, timeout_s)

    @property
    def seen(self) -> Mapping[str, float]:
        return self._seen

    def iterations(self, done: int, total: int) -> Iterator[int]:
        """Those that the scheduler gives out."""
        return takewhile(lambda _: self.goes_on, count(done))

    def step(self, model: Model, world: int) -> None:
        """Compute on the weights that came."""
        model.put()

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        if not isinstance(note, Given) or self._complete:
            raise self._misfit(connection, note)
        mine = self._rank + self._world * self._iteration
        try:
            new = fates.learn(note.begin, note.begin_version, note.entries, self._known, mine, self._world)
        except ValueError as error:
            raise self._misfit(connection, f"weights after which {error}") from error
        np.copyto(self._weights, self._memory.weights)
        told = {"update": new.at, "version": self._version, "staleness": new.version - self._version}
        self._seen = {**told, "fate": int(new.fate), "held_s": note.held_s}
        self._known, self._version, self.goes_on = new.known, note.version, note.goes_on
        self._learn(new.applied)
        if not new.fate.is_applied:
            self._dropped(self._iteration)
        self._complete, self._complete_s = True, time.monotonic()

    def _waits_for(self, connection: Connection) -> bool:
        return self.goes_on or not self._complete

    def _awaited(self) -> str:
        return "for its daemon"
