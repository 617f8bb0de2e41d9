"""Messages between the caller's process and the sandbox: pickles with a length in front, and open files beside them.

Both ends are the same program run by the same user, so pickles are safe. The end of the stream means that the other
side is gone.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_LENGTH = struct.Struct("=I")
MOST_FILES = 8


class ChannelClosedError(Exception):
    """The other side is gone, or this one was closed."""


class Channel:
    """One end of a stream socket, with the messages that go over it."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def fileno(self) -> int:
        """File descriptor for select()."""
        return self._stream.fileno()

    def send(self, message: Any, files: Sequence[int] = (), timeout_s: float | None = None) -> None:
        """Send one message, with copies of open files. Raises ChannelClosedError: the other side is gone, or this one
        was closed; TimeoutError: the other side has not taken it within ``timeout_s``."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        try:
            self._stream.settimeout(timeout_s)
            socket.send_fds(self._stream, [_LENGTH.pack(len(data))], list(files))
            self._stream.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self, timeout_s: float | None = None) -> tuple[Any, list[int]]:
        """Wait for one message and its files (which the caller must close). Raises ChannelClosedError: the other side
        is gone, or this one was closed; TimeoutError: nothing came for ``timeout_s``."""
        try:
            self._stream.settimeout(timeout_s)
            first, files, _, _ = socket.recv_fds(self._stream, _LENGTH.size, MOST_FILES)
            length = _LENGTH.unpack(first + self._exactly(_LENGTH.size - len(first), at_start=not first))[0]
            return pickle.loads(self._exactly(length)), files
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelClosedError from error

    def close(self) -> None:
        """End the stream for every process that shares it."""
        with suppress(OSError):  # the other side may have closed first
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def _exactly(self, count: int, at_start: bool = False) -> bytes:
        if at_start:
            raise ChannelClosedError
        pieces = []
        while count > 0:
            piece = self._stream.recv(min(count, 1 << 20))
            if not piece:
                raise ChannelClosedError
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)
