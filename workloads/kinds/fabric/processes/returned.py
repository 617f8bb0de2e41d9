"""A server that is started again from its last checkpoint when its process was killed.

The workers' daemons and the scheduler look for it (:class:`~.messages.Back`). When all have found it, it knows of each
worker which of its updates were decided since the checkpoint: those are lost. So is an update that is computed on
weights which contain lost ones. All other updates that are on their way are sent again. The scheduler forgets what it
had planned, tells all daemons that what was said before is void, and plans anew.

The journal goes on where the checkpoint left it, with a line for each update that was lost. Versions go on there, too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Step, Unit
from testbed.workloads.kinds.fabric.processes.messages import Back, Lost, Note, Resume
from testbed.workloads.kinds.fabric.processes.server import Loss
from testbed.workloads.kinds.fabric.processes.survivor import Survivor
from testbed.workloads.sync.connection import Connection


@dataclass(frozen=True)
class Saved:
    """State that a server adds to its weights in a checkpoint.

    Attributes:
        steps: of the journal.
        received: as :attr:`.survivor.Survivor.came`.
    """

    steps: tuple[Step, ...]
    received: tuple[tuple[int, tuple[int, ...], int], ...]

    def encode(self) -> bytes:
        fields = [[int(one.fate), one.begin, *vars(one.unit).values()] for one in self.steps]
        return json.dumps({"steps": fields, "received": self.received}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, told: bytes) -> Saved:
        """
        Raises:
            WorkerError: it is none.
        """
        try:
            found = json.loads(told)
            steps = tuple(_step(*one) for one in found["steps"])
            received = tuple((source, tuple(members), count) for source, members, count in found["received"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WorkerError(
                f"what the checkpoint says besides weights cannot be read: {error}",
                fix="let nothing else write there",
            ) from error
        return cls(steps, received)


def _step(
    fate: int,
    begin: int,
    members: Sequence[int],
    versions: Sequence[int],
    is_sum: bool,
    shares: Sequence[tuple[float, float]],
) -> Step:
    counts = tuple((weights, velocity) for weights, velocity in shares)
    return Step(Unit(tuple(members), tuple(versions), is_sum, counts), Fate(fate), begin)


class Returned(Survivor):
    """A server that was started again: it waits until the others have found it, and goes on."""

    def resume(self, saved: Saved, history: int) -> None:
        """Begin with the state in a checkpoint; ``history`` is how many times the server was started again."""
        self.journal.resume(saved.steps)
        self._received, self._history = list(saved.received), history
        self._backs: dict[int, Back] = {}
        self._kept = len(self.journal.entries)
        self._loss: Loss | None = None
        for number, _ in self.journal.entries:
            self._done[number % len(self._done)] += 1

    def barrier(self, timeout_s: float) -> None:
        """Return at once: nobody waits for this process at the start."""

    def said(self) -> dict[str, Any]:
        """Report as :meth:`.survivor.Survivor.said` does, with the loss of the server before, and what was lost with
        it."""
        told = super().said()
        if self._loss is None:
            return told
        now_s = time.monotonic()
        at: dict[str, Any] = {"time": now_s, "clock_s": now_s}
        told = {**at, "lost": [], "lost_at": [], "came": self._received, "gave": [], **told}
        lost = [divmod(number, len(self._done)) for number, fate in self.journal.entries if fate == Fate.LOST]
        updates = [(rank, iteration) for iteration, rank in lost]
        told["lost"] = [*told["lost"], (self._loss.node, self._loss.at_s, self._loss.commit_s, updates)]
        told["lost_at"] = [*told["lost_at"], (self._loss.node, self._loss.entries)]
        return told

    def _told(self, connection: Connection, note: Note) -> None:
        node = connection.node
        if isinstance(note, Back) and node not in self._backs and self._loss is None:
            self._backs[node] = note
            if self._backs.keys() >= {*self._plan.workers, self._plan.scheduler}:
                self._go_on()
        elif isinstance(note, Lost) and self._loss is not None and self._own(note.update) == node:
            self._decided(self.journal.lose(note.update))
        else:
            super()._told(connection, note)

    def _own(self, number: int) -> int:
        return self._plan.workers[number % len(self._plan.workers)]

    def _go_on(self) -> None:
        """Go on: all neighbours are back.

        Raises:
            ValueError: a daemon tells of an update that its worker cannot have.
        """
        world, version, waiting = len(self._plan.workers), self.journal.version, []
        for rank, node in enumerate(self._plan.workers):
            iteration, other = divmod(self._backs[node].update, world)
            if other != rank or not self._done[rank] - 1 <= iteration <= self._survival.updates:
                raise ValueError(f"worker {rank} has done {self._done[rank]} updates at the checkpoint")
            waiting += [rank] if iteration < self._done[rank] else []
            for lost in range(self._done[rank], iteration):
                self.journal.lose(lost * world + rank)
            self._done[rank], self._begun[rank] = max(self._done[rank], iteration), iteration + 1
        ago_s = max(back.ago_s for back in self._backs.values())
        self._loss = Loss(self._plan.server, time.monotonic() - ago_s, self._kept)
        told = Resume(self._history, self._kept, version, tuple(waiting), tuple(self.journal.entries))
        self._say(self._plan.scheduler, told)

    def _decided(self, step: Step) -> None:
        if self._loss is not None:
            self._loss.decided(step)
        super()._decided(step)

    def _lacks(self) -> str:
        if self._loss is None:
            missing = {*self._plan.workers, self._plan.scheduler} - self._backs.keys()
            return f"{', '.join(self._plan.nodes[node] for node in sorted(missing))} to find it again"
        return super()._lacks()
