"""The side of a trial's worker that its session sees: a session's calls become pushes and gets (:mod:`.worker`)."""

from __future__ import annotations

import math
import time
from socket import socket
from typing import TYPE_CHECKING

import numpy as np

from testbed.workloads.kinds.fabric.fates import Fate, Learnt
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.processes.worker import Worker
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.session import WeightsSession

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


class Client(WeightsSession, Worker):
    """A worker's session: an iteration is ``start``, when the gradient is complete, then
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
