"""Messages over connections, each of a kind and read into the room that is made for it.

A message is a 4-byte header (4 bits kind, 28 bits length of a note) and then nothing, a note, or floats, which go
straight to where they belong: both sides know how many they are. A process's :mod:`.loop` moves them.

A process may end while its neighbours still send. If it closes a connection with bytes unread, the kernel resets the
connection: what has not arrived is thrown away, and the neighbour can send nothing more. So before it closes, a process
waits until what it has sent has arrived. And a process that can send nothing more to a neighbour first reads what has
come from it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from testbed.workloads.sync.connection import HEADER_BYTES, Act, Connection, LostError, linger, lost
from testbed.workloads.sync.loop import Loop

_KIND_SHIFT = 28
_LENGTH_MASK = (1 << _KIND_SHIFT) - 1


class Framed(Loop):
    """A loop that moves such messages."""

    def __init__(self, name: str, connections: Sequence[Connection]) -> None:
        super().__init__(name, connections)
        self._into: dict[int, memoryview] = {}

    @abstractmethod
    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        """Return the room for the rest of a message whose header has come; ``length`` is a note's.

        Raises:
            WorkerError: there is no such message.
        """

    @abstractmethod
    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        """Handle a message that is there, with the rest of it in ``room``."""

    @abstractmethod
    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""

    def _push(
        self, connection: Connection, kind: int, payload: memoryview, length: int = 0, left: Act | None = None
    ) -> None:
        """Queue a message; ``length`` is a note's. The payload must stay as it is until it is sent; then ``left`` is
        called."""
        word = kind << _KIND_SHIFT | length
        connection.push_raw(word.to_bytes(HEADER_BYTES, "big"), payload, left=left)

    def close(self) -> None:
        """Close every connection once what was sent has arrived, or after :data:`.connection.LINGER_S`."""
        linger(self._connections)
        super().close()

    def _flush(self, connection: Connection) -> int:
        """Hand queued bytes to the kernel. If the neighbour has ended, and messages of it are unread, drop what waits
        for it: these messages tell whether it was to end."""
        try:
            return super()._flush(connection)
        except LostError as error:
            has_ended = isinstance(error.__cause__, ConnectionError)
            if connection.closed or not has_ended or not connection.has_unread:
                raise
            connection.drop()
            connection.readable = True
            return 0

    def _take(self, connection: Connection) -> bool:
        if connection.word is None:
            connection.word = connection.read_header()
            if connection.word is None:
                self._refuse_end(connection)
                return False
            room = self._room_for(connection, connection.word >> _KIND_SHIFT, connection.word & _LENGTH_MASK)
            self._into[connection.node], connection.left = room, len(room)
        count = 0
        if connection.left:
            count = connection.read_payload(self._into[connection.node][-connection.left :])
        if connection.left == 0:
            word, connection.word = connection.word, None
            self._message(connection, word >> _KIND_SHIFT, self._into[connection.node])
            return True
        if connection.closed:
            raise lost(connection, "it was closed within a message")
        return count > 0

    def _refuse_end(self, connection: Connection) -> None:
        """Raise NeighbourError if the neighbour has ended and must not have."""
        if connection.closed and self._waits_for(connection):
            raise lost(connection, "it was closed")
