"""Facts that a scheduler gathers when the server is lost, so that the replica can serve. Pure logic, no I/O.

The server's journal is known in pieces. The scheduler was told what was decided; the replica, too; and each worker has
learnt it with its weights. All have heard from the server itself, in its order, so each knows a beginning of the same
journal. The longest of them counts: no worker has weights that contain more.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.workloads.kinds.fabric.fates import Entry
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.messages import Dropped, Joined, Note, Order, Serve


class Takeover:
    """All that is known of the server's journal, and the nodes that have told their part.

    Attributes:
        has_begun: whether the server is lost.
    """

    def __init__(self, plan: Fabric) -> None:
        self._waits_for = {*plan.workers, plan.replica}
        self._world = len(plan.workers)
        self._orders: list[Order] = []
        self._dropped: dict[int, Dropped] = {}
        self._entries: list[Entry] = []
        self._heard = 0
        self._unanswered: set[int] = set()
        self.has_begun = False

    @property
    def is_complete(self) -> bool:
        """Whether all have joined."""
        return not self._waits_for

    @property
    def is_open(self) -> bool:
        """Whether somebody has still to join."""
        return self.has_begun and not self.is_complete

    def told(self, note: Note) -> None:
        """Store a note that the server was sent."""
        if self.has_begun:
            return
        if isinstance(note, Order):
            self._orders.append(note)
        elif isinstance(note, Dropped):
            self._dropped[note.update] = note

    def decided(self, entries: Sequence[Entry]) -> None:
        """Store decisions that the server has reported."""
        if not self.has_begun:
            self._entries += entries
            self._heard = len(self._entries)

    def joined(self, node: int, note: Joined) -> None:
        """Raises ValueError: no server was lost; this node has joined before; nobody knows what was before these
        entries; or the journal was another."""
        if not self.has_begun or node not in self._waits_for:
            raise ValueError("no server was lost, or this process has joined before")
        self._waits_for.discard(node)
        entries = [(number, fate) for number, fate in note.entries]
        known = self._entries[note.begin : note.begin + len(entries)]
        if note.begin > len(self._entries) or known != entries[: len(known)]:
            raise ValueError(f"the journal goes on with {entries[:20]} from {note.begin} on, and was {known[:20]}")
        self._entries += entries[len(known) :]
        if note.unanswered >= 0:
            self._unanswered.add(note.unanswered)

    @property
    def unheard(self) -> Sequence[Entry]:
        """Entries that the server has decided, but not reported to the scheduler."""
        return self._entries[self._heard :]

    @property
    def unanswered(self) -> list[int]:
        """Ranks that wait for weights, although it is decided what became of their updates."""
        known = {number for number, _ in self._entries}
        return [number % self._world for number in sorted(self._unanswered & known)]

    @property
    def notes(self) -> list[Note]:
        """Notes for the replica: to serve, and further updates that are to be dropped."""
        known = {number for number, _ in self._entries}
        updates = tuple(number for order in self._orders for number in order.updates)
        versions = tuple(version for order in self._orders for version in order.versions)
        again = [note for number, note in self._dropped.items() if number not in known]
        return [Serve(updates, versions, tuple(self._entries)), *again]
