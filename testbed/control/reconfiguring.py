"""Circuits that move within iterations, by what processes have still to send (TopoOpt, section 5.1 and Appendix D).

Every so often: processes tell what is unsent; Algorithm 5 says which circuits that wants; the move is worked out while
traffic goes on; processes hold, and what is on its way arrives; circuits are dark for their time, and carry light
again; processes go on to those whom a circuit joins them with. What they have for others waits for another time. If the
same servers are joined as before, or nothing is unsent, nothing moves and nobody holds.

From the trial's beginning on, too, processes send to those alone whom a circuit joins them with. Else a job whose looks
all fall into its computing, when nothing is unsent, would run as if nobody reconfigured anything.

A thread does so, with a socket for each process (:mod:`testbed.workloads.sync.gate`).
"""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import LabError, TestbedError
from testbed.base.urgency import urgent
from testbed.control.conductor import Record
from testbed.control.feed import LOOK_S, Feed
from testbed.lab.base import Lab
from testbed.perturb.circuits import Carried, State
from testbed.perturb.events import Reconfiguration
from testbed.perturb.registry import PERTURBATIONS
from testbed.topologies.model import Topology
from testbed.topologies.panels import Matching
from testbed.topologies.patch_panel import repatched
from testbed.topologies.topoopt.reconfigure import reconfigured
from testbed.workloads.sync.gate import DRAINED, ENDED, GO, HOLD, MOVE, UNSENT, Said, beside, most_bytes, unpack

KIND = next(name for name, kind in PERTURBATIONS.items() if kind.moves_circuits and not kind.asked_in_band)
"""Name that records give to a move."""
ANSWER_S = 5.0
"""Seconds to wait for an answer; answers came within 50 ms, later where others take the cores."""
NOTICE_S = 0.05
"""Seconds within which the thread notices that the trial is over."""

Bytes = NDArray[np.int64]
"""Bytes by source and destination, int64[nodes, nodes]."""


class Reconfiguring:
    """Controller that moves circuits; use in ``with``, around the thread that asks it.

    Attributes:
        records: the moves, as they went. One is due when unsent bytes are asked for, or, if that is later, once the
            processes hold.
        history: which circuits carried light and when, and what passed over them.
    """

    is_urgent = True

    def __init__(self, lab: Lab, topology: Topology, asked: Reconfiguration, path: Path) -> None:
        """Listen for processes, which connect to ``path``; ``topology`` is what is up. Raises OSError: the system
        refuses."""
        self._lab, self._asked = lab, asked
        self._senders = Senders(path, [node.name for node in topology.nodes])
        self.records: list[Record] = []
        self.history: list[State] = [State(topology)]
        self._sent = self._senders.sent
        self._began_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reconfiguring", daemon=True)

    def __enter__(self) -> Reconfiguring:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._senders.close()
        self._note_carried()

    def look(self, feed: Feed) -> float:
        """Begin to reconfigure when the trial begins."""
        feed.look()
        self._began_s = feed.begun_s
        return LOOK_S if feed.begun_s is None else math.inf

    # The thread.

    def _work(self) -> None:
        due_s = math.inf
        while not self._stop.is_set():
            if due_s == math.inf and self._began_s is not None:
                self._senders.go(joined(self.history[0].topology))
                due_s = self._began_s + self._asked.every_s
            left_s = due_s - time.monotonic()
            if left_s > 0:
                self._senders.listen(min(left_s, NOTICE_S))
                continue
            if not self._senders.are_any:  # the last one has ended
                return
            with urgent():
                self._try(due_s)
            periods = (time.monotonic() - due_s) // self._asked.every_s + 1  # whole ones that have passed are left out
            due_s += periods * self._asked.every_s

    def _try(self, due_s: float) -> None:
        record = Record(KIND, "circuits for what is unsent", due_s, takes_s=self._asked.dark_s)
        try:
            self._move(record)
        except TestbedError as error:
            if not self._stop.is_set():
                record.error = error.problem
                self.records.append(record)

    def _move(self, record: Record) -> None:
        """Raises LabError: a process does not answer, or the circuits cannot be moved."""
        now = self.history[-1].topology
        target = wanted(now, self._senders.unsent(), self._asked)
        if target is None:
            return
        pairs = joined(target)
        self._lab.plan_patch(target, pairs)
        try:
            self._senders.hold()
            record.free_s = record.begun_s = time.monotonic()
            done = self._lab.patch(target, self._asked.dark_s, pairs, lambda: self._senders.go(pairs))
        except TestbedError:
            self._senders.go(joined(now))
            raise
        record.begun_s, record.done_s = done.dark_s, done.lit_s
        record.what = f"{done.parted} circuits dark, {done.joined} new"
        self.records.append(record)
        self._note_carried()
        self.history.append(State(target, done.dark_s, done.lit_s))

    def _note_carried(self) -> None:
        """Note for the last state of circuits what was sent since the last move."""
        before, self._sent = self._sent, self._senders.sent
        carried = Carried(*(now - then for now, then in zip(self._sent, before, strict=True)))
        self.history[-1] = self.history[-1]._replace(carried=carried)


def wanted(topology: Topology, unsent_bytes: Bytes, asked: Reconfiguration) -> Topology | None:
    """Compute the network with circuits for what is unsent; None if the present ones join the same servers."""
    assert topology.panels is not None
    servers = topology.host_count
    found = reconfigured(unsent_bytes[:servers, :servers], topology.panels.degree, asked.discount)
    if not any(found) or _joined(found) == _joined(topology.panels.lit):
        return None
    return repatched(topology, topology.panels.patch(found))


def _joined(circuits: Iterable[Matching]) -> Counter[tuple[int, int]]:
    """Number of circuits that join each two servers."""
    return Counter(chain.from_iterable(circuits))


def joined(topology: Topology) -> list[tuple[int, int]]:
    """Pairs (source, destination) of all servers that a circuit joins, sorted."""
    assert topology.panels is not None
    return sorted({pair for a, b in _joined(topology.panels.lit) for pair in ((a, b), (b, a))})


class Senders:
    """Gates of the processes. A process that has ended, or says what makes no sense, is heard no more.

    Attributes:
        sent: what they had sent when they last held, or in the end.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        """Listen at ``path``. ``names`` are those of the network's nodes, by number. Raises OSError: the system
        refuses."""
        self._names, self._nodes = names, len(names)
        self._listener = beside(path, connect=False)
        self._listener.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._socks: dict[int, socket.socket] = {}
        self._node: dict[int, int] = {}
        """Node of the process at each descriptor, as it has said."""
        self.sent = Carried(self.none(), self.none())

    def none(self) -> Bytes:
        """Make a matrix of no bytes."""
        return np.zeros((self._nodes, self._nodes), np.int64)

    @property
    def are_any(self) -> bool:
        """Whether there are processes that have not ended."""
        return bool(self._socks)

    def unsent(self) -> Bytes:
        """Ask, by source and destination, what processes have still to send, without what a destination does not take
        yet. Raises LabError: one does not answer."""
        found, refuses = self.none(), np.zeros((self._nodes, self._nodes), np.bool_)
        for said in self._ask(UNSENT, UNSENT):
            found[said.node], refuses[:, said.node] = said.count_bytes, said.refuses
        return np.where(refuses, 0, found)

    def hold(self) -> None:
        """Return once all hold, and nothing of theirs is on its way. Raises LabError: one does not answer."""
        self._ask(HOLD, DRAINED)
        self._tell(MOVE)

    def go(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Let processes send again: the first of each pair to the second."""
        open_to = np.zeros((self._nodes, self._nodes), np.uint8)
        for src, dst in pairs:
            open_to[src, dst] = 1
        for descriptor, node in list(self._node.items()):
            self._send(descriptor, GO + open_to[node].tobytes())

    def listen(self, timeout_s: float) -> list[Said]:
        """Wait for the first messages within that time, and return them."""
        found = []
        for descriptor, _ in self._poll.poll(1000 * timeout_s):
            if descriptor == self._listener.fileno():
                self._accept()
            elif (said := self._read(descriptor)) is not None:
                found.append(said)
        return found

    def close(self) -> None:
        """Hear what has been said, and end: nobody holds any more."""
        while self._poll.poll(0):
            self.listen(0.0)
        for sock in (self._listener, *self._socks.values()):
            sock.close()

    def _ask(self, word: bytes, answer: bytes) -> list[Said]:
        self._tell(word)
        found, end_s = dict[int, Said](), time.monotonic() + ANSWER_S
        while missing := set(self._node.values()) - found.keys():
            if time.monotonic() > end_s:
                raise LabError(
                    f"{self._names[min(missing)]} did not answer within {ANSWER_S:g} s",
                    fix="see what keeps it from running, or its packets from arriving",
                )
            found |= {said.node: said for said in self.listen(LOOK_S) if said.word == answer}
        return [*found.values()]

    def _tell(self, message: bytes) -> None:
        for descriptor in list(self._node):
            self._send(descriptor, message)

    def _send(self, descriptor: int, message: bytes) -> None:
        with suppress(OSError):  # it has ended, which is heard
            self._socks[descriptor].send(message, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

    def _accept(self) -> None:
        with suppress(OSError):
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            self._socks[sock.fileno()] = sock
            self._poll.register(sock, select.POLLIN)

    def _read(self, descriptor: int) -> Said | None:
        try:
            message = self._socks[descriptor].recv(most_bytes(self._nodes) + 1)
            said = unpack(message, self._nodes)
        except (OSError, ValueError):
            said = None
        if said is None or said.node != self._node.setdefault(descriptor, said.node):
            self._poll.unregister(descriptor)
            self._node.pop(descriptor, None)
            self._socks.pop(descriptor).close()
            return None
        if said.word in (DRAINED, ENDED):
            self.sent = Carried(*(one.copy() for one in self.sent))
            self.sent.stream_bytes[said.node], self.sent.wire_bytes[said.node] = said.count_bytes, said.wire_bytes
        return said
