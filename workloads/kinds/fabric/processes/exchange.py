"""Notes and floats over connections: the part that all processes of a trial scheduled by MLfabric share.

Floats follow the note (:mod:`.messages`) that announces them. Every process of the trial meets in the scheduler: it is
the root of barriers.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from socket import SOL_SOCKET, socket

import numpy as np

from testbed.base.errors import NeighbourError, SpecError
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.messages import (
    Arrived,
    Give,
    Gradient,
    Nears,
    Note,
    Pass,
    Send,
    SendSums,
    Weights,
    decode,
    encode,
)
from testbed.workloads.kinds.fabric.processes.moments import Clock, Coming
from testbed.workloads.serving.exchange import FLOATS, NOTE, Floats
from testbed.workloads.serving.watched import Watched
from testbed.workloads.sync.connection import Connection

_SO_MAX_PACING_RATE = 47
"""Socket option for the pacing rate in bytes per second (asm-generic/socket.h); Python does not name it."""
_UNPACED = 2**32 - 1
"""The rate that stands for no limit (socket(7))."""


def check_floats(floats: object, count: int, whose: str) -> Floats:
    """Return a program's array, if it is float32[count].

    Raises:
        SpecError: it is not.
    """
    if isinstance(floats, np.ndarray) and floats.dtype == np.float32 and floats.shape == (count,):
        return floats
    got = f"{floats.dtype}{list(floats.shape)}" if isinstance(floats, np.ndarray) else f"a {type(floats).__name__}"
    raise SpecError(
        f"{whose} must be float32[{count}], and is {got}",
        fix="give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])",
    )


def check_room(floats: Floats, whose: str) -> None:
    """Raises SpecError: nothing can be written to the array."""
    if not floats.flags.writeable:
        raise SpecError(f"{whose} is read-only", fix="give a copy: numpy.array(weights)")


def check_left(plan: Fabric, lost: Collection[int]) -> None:
    """Raises NeighbourError: all workers are lost; maybe it is this process that the others have lost."""
    if set(plan.workers) <= set(lost):
        raise NeighbourError(
            "no worker is left: all of them have ended, or nothing reaches this process any more",
            fix="see why they ended, or kill fewer, and cut no server off for longer than failover",
        )


class Exchange(Watched):
    """Messages with neighbours, one connection each."""

    _plan: Fabric
    _over = False

    def __init__(self, name: str, names: Mapping[int, str] | Sequence[str], sockets: Mapping[int, socket]) -> None:
        super().__init__(name, names, sockets)
        self._announced: dict[int, tuple[Note, Floats]] = {}
        self._coming: dict[int, Coming] = {}
        """The announced floats that are on their way, by neighbour."""
        self._clock = Clock()

    @abstractmethod
    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        """Handle a note that has come, with the floats that it announced."""

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        """Return the array for the floats that follow a note; None where none do."""
        return None

    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""
        return not self._over

    def _say(self, node: int, note: Note, floats: Floats | None = None) -> None:
        """Queue a note for a neighbour, and floats, which must stay as they are until they are sent. A neighbour that
        is lost gets none."""
        if node in self._former:
            return
        self._tell(self._by_node[node], NOTE, encode(note))
        if floats is not None:
            self._tell(self._by_node[node], FLOATS, floats.data.cast("B"))

    def _pace(self, node: int, rate_bps: float) -> None:
        """Send to a neighbour no faster from now on; 0 for as fast as TCP goes."""
        if node in self._former:
            return
        rate = min(_UNPACED, round(rate_bps / 8)) if rate_bps else _UNPACED
        self._by_node[node].sock.setsockopt(SOL_SOCKET, _SO_MAX_PACING_RATE, rate.to_bytes(4, "little"))

    def _send_weights(self, node: int, note: Weights, floats: Floats, rate_bps: float) -> None:
        self._pace(node, rate_bps)
        self._say(node, note, floats)

    # What the scheduler says of times.

    def _begin_s(self, note: Send | SendSums | Pass | Give) -> float:
        """Return when a note was sent, by this process's clock, as if notes took no time: waits begin then."""
        now_s = time.monotonic()
        if note.said_s is None:
            return now_s
        self._clock.heard(note.said_s, now_s)
        return self._clock.here_s(note.said_s)

    def _arrival(self, members: tuple[int, ...], source: int, shard: int) -> Arrived:
        return Arrived(members, source, shard, self._clock.told_s(time.monotonic()))

    # What comes.

    def _take(self, connection: Connection) -> bool:
        came = super()._take(connection)
        if came:
            self._look_at_end(connection, self._heard_s[connection.node])
        return came

    def _look_at_end(self, connection: Connection, now_s: float) -> None:
        coming = self._coming.get(connection.node)
        if coming is None or connection.word is None:
            return
        left_s = coming.ends_in_s(connection.left, now_s)
        if left_s is not None:
            self._nears(connection.node, self._announced[connection.node][0], left_s)

    def _nears(self, source: int, note: Note, left_s: float) -> None:
        """Tell the scheduler how long announced data still takes to arrive, if it is data that the scheduler plans."""
        if isinstance(note, Gradient | Weights):
            members = note.members if isinstance(note, Gradient) else ()
            at_s = self._clock.told_s(time.monotonic())
            self._say(self._plan.scheduler, Nears(members, source, left_s, note.shard, at_s))

    def _floats_of(self, connection: Connection) -> Floats | None:
        announced = self._announced.get(connection.node)
        return None if announced is None else announced[1]

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        if kind != FLOATS and connection.node in self._announced:
            raise self._misfit(connection, f"a message of kind {kind}")
        return super()._room_for(connection, kind, length)

    def _forget(self, node: int) -> None:
        self._announced.pop(node, None)
        self._coming.pop(node, None)

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        if kind == FLOATS:
            self._coming.pop(connection.node, None)
            self._came(connection, *self._announced.pop(connection.node))
            return
        try:
            told = decode(note)
        except ValueError as error:
            raise self._misfit(connection, error) from error
        floats = self._room(connection, told)
        if floats is None:
            self._came(connection, told, None)
        else:
            self._announced[connection.node] = told, floats
            self._coming[connection.node] = Coming(floats.nbytes, time.monotonic())
