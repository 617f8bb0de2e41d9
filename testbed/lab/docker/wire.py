"""Messages between the harness and what runs in containers: JSON, with open files beside them.

Not pickles, as in the sandbox: in a container runs whatever a spec or an image brings, and a pickle from there would be
a program that the harness runs.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

VERSION = 2
"""Version of the messages; an image may hold another testbed than the one that starts it."""
LARGEST_BYTES = 128 * 2**10
MOST_FILES = 8
CREDENTIALS = struct.Struct("=iII")
"""Layout of a process's PID, user and group (unix(7), SO_PEERCRED)."""


class WireClosedError(Exception):
    """The other side of a connection is gone."""


class Wire:
    """One end of a connection that keeps messages apart (``SOCK_SEQPACKET``)."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    @classmethod
    def connect(cls, path: str) -> Wire:
        """Connect to a listening socket. Raises OSError: nobody listens there."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(path)
        return cls(connection)

    @property
    def peer_pid(self) -> int:
        """PID of the process that made the connection, as the kernel says; 0 if it is not of our PID namespace."""
        said = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        return int(CREDENTIALS.unpack(said)[0])

    def fileno(self) -> int:
        """File descriptor for select()."""
        return self._socket.fileno()

    def send(self, message: Any, files: Sequence[int] = (), timeout_s: float | None = None) -> None:
        """Send one message, with copies of open files. Raises WireClosedError: the other side is gone; TimeoutError: it
        has not taken it in time."""
        try:
            self._socket.settimeout(timeout_s)
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(files))
        except TimeoutError:
            raise
        except OSError as error:
            raise WireClosedError from error

    def receive(self, timeout_s: float | None = None) -> tuple[Any, list[int]]:
        """Wait for one message and its files (which the caller must close). Raises WireClosedError: the other side is
        gone, or says what is no message; TimeoutError: nothing came in time."""
        try:
            self._socket.settimeout(timeout_s)
            data, files, _, _ = socket.recv_fds(self._socket, LARGEST_BYTES, MOST_FILES, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise
        except OSError as error:
            raise WireClosedError from error
        try:
            return json.loads(data), files
        except (ValueError, RecursionError) as error:  # nothing at all, the end, is no JSON either
            for file in files:
                os.close(file)
            raise WireClosedError from error

    def close(self) -> None:
        self._socket.close()
