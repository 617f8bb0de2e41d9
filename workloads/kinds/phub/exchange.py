"""Messages about keys, between workers, cores and the manager, and how these processes meet.

The 28 bits of a header that are a note's length elsewhere are the number of a key, or of a layer. So a key costs a
header of 4 bytes each way, and nothing else. Processes of one host are connected by sockets that the kernel keeps for
this host alone, as workers and daemons of MLfabric are.
"""

from __future__ import annotations

import socket
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from testbed.base.errors import WorkerError
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.serving import near
from testbed.workloads.serving.exchange import BARRIER, FLOATS, Exchange, Floats
from testbed.workloads.sync import transport
from testbed.workloads.sync.connection import Act, Connection
from testbed.workloads.sync.tcp_info import Sent

T = TypeVar("T")

PUSH, PUSH_PULL, PULL, VALUE, KEPT, CAME, GO, CHANGED, PART, TOTAL = range(FLOATS + 1, FLOATS + 11)
"""Further kinds of messages. Floats follow the header of the first two, of ``VALUE``, ``PART`` and ``TOTAL``. ``KEPT``:
a core has what was pushed. ``CAME``: a core has all of a layer. ``GO``: all cores have. ``CHANGED``: one of the cores
that own a key together has taken the step. ``PART``: a sum of some racks. ``TOTAL``: the sum of all racks."""
CALLED = {
    PUSH: "a push of key",
    PUSH_PULL: "a push of key",
    PULL: "a pull of key",
    VALUE: "the value of key",
    KEPT: "word that it has key",
    CAME: "word that it has layer",
    GO: "word to go on with layer",
    CHANGED: "word of the step for key",
    PART: "a rack's sum of key",
    TOTAL: "the sum of all racks for key",
}


@dataclass(frozen=True)
class End:
    """This process's end of a connection: with which process, on which node (None for its own), and the socket."""

    name: str
    node: int | None
    sock: socket.socket


def rotated(items: Sequence[T], start: int) -> list[T]:
    """Return the items from number ``start`` on, and then those before it. Processes that send to all others each begin
    with another, for otherwise all would send to one NIC at once."""
    start %= max(1, len(items))
    return [*items[start:], *items[:start]]


class Keyed(Exchange):
    """Messages about keys. Processes at other ends are known by their place among ``ends``, for a host has several.

    A barrier goes from workers to cores and on to the manager, and back.
    """

    _fix = "give every process the same plan and model"

    def __init__(self, name: str, ends: Sequence[End]) -> None:
        super().__init__(name, [end.name for end in ends], {at: end.sock for at, end in enumerate(ends)})
        self._nodes = [end.node for end in ends]
        self._about: dict[int, tuple[int, int]] = {}
        """By connection, kind and number of the last message about a key or layer."""

    @property
    def _wires(self) -> Sequence[Connection]:
        return [connection for connection in self._connections if self._nodes[connection.node] is not None]

    @property
    def sent(self) -> dict[int, Sent]:
        found: dict[int, Sent] = {}
        for at, told in super().sent.items():
            node = self._nodes[at]
            assert node is not None
            found[node] = found.get(node, Sent()) + told
        return found

    @abstractmethod
    def _room_of(self, connection: Connection, kind: int, number: int) -> Floats | None:
        """Return the room for the floats of a message about a key; None where none come.

        Raises:
            WorkerError: no such message may come.
        """

    @abstractmethod
    def _came(self, connection: Connection, kind: int, number: int) -> None:
        """Handle a message about a key or layer."""

    def _say(self, at: int, kind: int, number: int, floats: Floats | None = None, left: Act | None = None) -> None:
        """Queue a message about a key or layer. The floats must stay as they are until they are sent; then ``left`` is
        called."""
        payload = memoryview(b"") if floats is None else floats.data.cast("B")
        self._push(self._by_node[at], kind, payload, number, left)

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        last = self._about.get(connection.node)
        if kind not in CALLED and (kind != BARRIER or length):
            after = "" if last is None else f" after {CALLED[last[0]]} {last[1]}"
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes{after}")
        if kind == BARRIER:
            return memoryview(b"")
        floats = self._room_of(connection, kind, length)
        self._about[connection.node] = kind, length
        return memoryview(b"") if floats is None else floats.data.cast("B")

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        if kind in CALLED:
            self._came(connection, *self._about[connection.node])
        else:
            super()._message(connection, kind, room)

    def _floats_of(self, connection: Connection) -> Floats | None:
        return None

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        raise self._misfit(connection, f"a message of kind {kind}")

    def _wrong(self, connection: Connection, kind: int, number: int) -> WorkerError:
        return self._misfit(connection, f"{CALLED[kind]} {number}")


def meet(job: WorkerJob, plan: Plan) -> dict[str, End]:
    """Connect with all processes that this one is to meet; return the ends by name.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    deadline = time.monotonic() + job.start_timeout_s
    node_of = {process.name: process.node for process in plan.processes()}
    here = [pair for pair in plan.meetings() if job.name in pair and node_of[pair[0]] == node_of[pair[1]]]
    name = job.name
    awaited = {one: near.listen(_address(job, one, name), name, one) for one, other in here if other == name}
    try:
        far = transport.connect_all(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
        sockets = {node: iter(found) for node, found in far.items()}
        ends = {peer.process: End(peer.process, peer.node, next(sockets[peer.node])) for peer in job.peers}
        for one, other in here:
            if one == name:
                ends[other] = End(other, None, near.reach(_address(job, name, other), name, other, deadline))
        for one, listener in awaited.items():
            ends[one] = End(one, None, near.accept(listener, name, one, deadline))
    finally:
        for listener in awaited.values():
            listener.close()
    return ends


def _address(job: WorkerJob, one: str, other: str) -> bytes:
    return near.address(f"{job.forest} {one} {other}")
