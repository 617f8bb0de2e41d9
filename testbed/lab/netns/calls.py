"""What programs on the nodes ask of the sandbox: to start others on other nodes.

Programs that call are not trusted. An incomplete call holds nobody up, a senseless one is dropped, and at most
:data:`MOST` wait at a time.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Collection
from contextlib import suppress

from testbed.errors import TestbedError

MOST = 256
"""More than a host calls others at once (``mpirun`` calls each once)."""
LARGEST_BYTES = 128 * 2**10
FILES = 3
"""Standard input, output and error."""
Start = Callable[[str, str, list[int]], None]
"""Starts a command for a shell on the node of that name; the last of its files takes the exit status."""


class Calls:
    """Sockets of nodes on which calls come, and those that wait."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._listening: dict[int, socket.socket] = {}
        self._waiting: dict[int, socket.socket] = {}

    def listen(self, line: socket.socket) -> None:
        """Take calls from here, too."""
        line.setblocking(False)
        self._listening[line.fileno()] = line

    def files(self) -> list[int]:
        """For select()."""
        room = len(self._waiting) < MOST
        return [*(self._listening if room else ()), *self._waiting]

    def answer(self, ready: Collection[int]) -> None:
        """Do what those ask for that are ready."""
        for fd in self._listening.keys() & ready:
            with suppress(OSError):  # it has gone again
                call, _ = self._listening[fd].accept()
                self._waiting[call.fileno()] = call
        for fd in self._waiting.keys() & ready:
            with self._waiting.pop(fd) as call:
                answer_one(call, self._start)


def answer_one(call: socket.socket, start: Start) -> None:
    """Start what a call asks for, or say why not."""
    files: list[int] = []
    try:
        said, files, _, _ = socket.recv_fds(call, LARGEST_BYTES, FILES, socket.MSG_DONTWAIT)
        name, command = json.loads(said)
        if len(files) != FILES or not isinstance(name, str) or not isinstance(command, str):
            raise ValueError("no call")
        files.append(os.dup(call.fileno()))
        start(name, command, files)
        files = []  # the command has them
    except TestbedError as error:
        with suppress(OSError):
            call.send(error.problem.encode()[:LARGEST_BYTES], socket.MSG_DONTWAIT)
    except (OSError, ValueError, RecursionError, TypeError):
        pass  # a call that makes no sense: whoever made it sees that the line is closed
    finally:
        for fd in files:
            os.close(fd)
