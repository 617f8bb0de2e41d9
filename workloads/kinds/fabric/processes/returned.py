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
from collections import Counter
from dataclasses import dataclass
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Step, Unit
from testbed.workloads.kinds.fabric.planning.turns import Turns
from testbed.workloads.kinds.fabric.processes.messages import Back, Lost, Note, Resume, reader
from testbed.workloads.kinds.fabric.processes.server import Loss, Server
from testbed.workloads.sync.connection import Connection

_STEPS = reader(tuple[tuple[int, int, tuple[int, ...], tuple[int, ...], bool, tuple[tuple[float, float], ...]], ...])
_CAME = reader(tuple[tuple[int, tuple[int, ...], int], ...])


@dataclass(frozen=True)
class Saved:
    """State that a server adds to its weights in a checkpoint.

    Attributes:
        steps: of the journal.
        received: as :attr:`.server.Server.came`.
    """

    steps: tuple[Step, ...]
    received: tuple[tuple[int, tuple[int, ...], int], ...]

    def encode(self) -> bytes:
        fields = [[int(step.fate), step.begin, *vars(step.unit).values()] for step in self.steps]
        return json.dumps({"steps": fields, "received": self.received}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, told: bytes) -> Saved:
        """Raises WorkerError: it is none."""
        try:
            said = json.loads(told)
            steps = tuple(Step(Unit(*unit), Fate(fate), begin) for fate, begin, *unit in _STEPS(said["steps"]))
            received = _CAME(said["received"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise WorkerError(
                f"what the checkpoint says besides weights cannot be read: {error}",
                fix="let nothing else write there",
            ) from error
        return cls(steps, received)


class Returned(Server):
    """A server that was started again: it waits until the others have found it, and goes on."""

    _is_found = False
    """Whether all others have found it."""

    def resume(self, saved: Saved, history: int) -> None:
        """Begin with the state in a checkpoint; ``history`` is how many times the server was started again."""
        self.journal.resume(saved.steps)
        self.came, self._history = list(saved.received), history
        self._backs: dict[int, Back] = {}

    def barrier(self, timeout_s: float) -> None:
        """Return at once: nobody waits for this process at the start."""

    def _told_of_losses(self) -> dict[str, Any]:
        """Report losses, that of the server before with the updates that were lost with it."""
        told, world = super()._told_of_losses(), len(self._plan.workers)
        lost = [divmod(number, world) for number, fate in self.journal.entries if fate == Fate.LOST]
        updates = [(rank, iteration) for iteration, rank in lost]
        told["lost"] = [(*loss, updates) if loss[0] == self._node else loss for loss in told["lost"]]
        return told

    def _told(self, connection: Connection, note: Note) -> None:
        node, world = connection.node, len(self._plan.workers)
        if isinstance(note, Back) and node not in self._backs and not self._is_found:
            self._backs[node] = note
            if self._backs.keys() >= self.met.keys():
                self._go_on()
        elif isinstance(note, Lost) and self._is_found and self._plan.workers[note.update % world] == node:
            self._decided(self.journal.lose(note.update))
        else:
            super()._told(connection, note)

    def _go_on(self) -> None:
        """Go on: all neighbours are back. Raises ValueError: a daemon tells of an update that its worker cannot
        have."""
        world, version, kept = len(self._plan.workers), self.journal.version, len(self.journal.entries)
        counts, waiting = Counter(number % world for number, _ in self.journal.entries), []
        for rank, node in enumerate(self._plan.workers):
            iteration, other = divmod(self._backs[node].update, world)
            if other != rank or not counts[rank] - 1 <= iteration <= self._updates:
                raise ValueError(f"worker {rank} has done {counts[rank]} updates at the checkpoint")
            waiting += [rank] if iteration < counts[rank] else []
            for lost in range(counts[rank], iteration):
                self.journal.lose(lost * world + rank)
            counts[rank] = max(counts[rank], iteration)
        done = [counts[rank] for rank in range(world)]
        staleness, now_s = self._plan.options.staleness, time.monotonic()
        self._turns = Turns.resumed(done, waiting, self._updates, staleness, now_s)
        for rank, node in enumerate(self._plan.workers):
            if node in self._former:
                self._turns.lose(rank)
        self._losses.append(Loss(self._node, now_s - max(back.ago_s for back in self._backs.values()), kept))
        self._is_found = True
        told = Resume(self._history, kept, version, tuple(waiting), tuple(self.journal.entries))
        self._say(self._plan.scheduler, told)

    def _lacks(self) -> str:
        if not self._is_found:
            missing = sorted(self.met.keys() - self._backs.keys())
            return f"{', '.join(self._plan.nodes[node] for node in missing)} to find it again"
        return super()._lacks()
