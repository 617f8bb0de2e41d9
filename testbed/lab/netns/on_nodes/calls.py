"""Calls of programs on the nodes, which ask the lab to start others on other nodes.

Problem: these programs are not trusted, and they hand over open files. To close a file can take as long as its owner
likes: a socket may wait for its last data (SO_LINGER in socket(7)). Chosen: the first process of a node takes the
node's calls, so that a call holds up its own node at most. It passes on what makes sense, with files that close at
once; the sandbox never has a socket that a program has had.
"""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from testbed.base.errors import LabError, TestbedError

MOST = 256
"""The most calls of a node at a time, with those whose command still runs. ``mpirun`` calls each host once."""
SILENT_S = 10.0
"""Seconds until a call that says nothing is dropped. A program says at once what it wants."""
PAUSE_S = 0.1
"""Seconds before the next call is taken, where the last one could not be: there is no room for open files."""
LARGEST_BYTES = 128 * 2**10
FILES = 3
"""Number of files of a call: standard input, output and error."""
NUMBER = struct.Struct("=I")
"""Layout of the number of the call, which begins all that the first process and the sandbox say to each other."""
MEMORY = 1
"""Major number of /dev/null and the like (devices.txt in the kernel's documentation)."""
Tell = Callable[[bytes], None]
Start = Callable[[str, str, list[int], Tell], None]
"""Function that starts a command for a shell on the node of that name, and tells how it ended."""


class Calls:
    """The calls of one node, at its first process."""

    def __init__(self, listening: socket.socket, lab: socket.socket) -> None:
        """Prepare to serve calls that come by ``listening``; ``lab`` leads to the sandbox."""
        self._listening, self._lab = listening, lab
        self._silent: dict[int, tuple[socket.socket, float]] = {}  # with the moment at which each is dropped
        self._running: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Serve calls until the sandbox hangs up."""
        while True:
            ready = self._wait()
            if self._lab.fileno() in ready and not self._pass_back():
                return
            if self._listening.fileno() in ready:
                self._accept()
            for fd in self._silent.keys() & ready:
                call, _ = self._silent.pop(fd)
                self._hear(call)
            now = time.monotonic()
            for fd in [fd for fd, (_, end_s) in self._silent.items() if end_s <= now]:
                self._silent.pop(fd)[0].close()

    def _wait(self) -> set[int]:
        """Wait until something is ready, or a silent call is to be dropped; what is ready."""
        poll = select.poll()
        room = len(self._silent) + len(self._running) < MOST
        for fd in (self._lab.fileno(), *([self._listening.fileno()] if room else ()), *self._silent):
            poll.register(fd, select.POLLIN)
        first_s = min((end_s for _, end_s in self._silent.values()), default=None)
        left_ms = None if first_s is None else 1e3 * max(0.0, first_s - time.monotonic())
        return {fd for fd, _ in poll.poll(left_ms)}

    def _accept(self) -> None:
        try:
            call, _ = self._listening.accept()
        except OSError:  # no room
            time.sleep(PAUSE_S)
            return
        self._silent[call.fileno()] = call, time.monotonic() + SILENT_S

    def _hear(self, call: socket.socket) -> None:
        """Pass on what a call asks for, or say why not."""
        files: list[int] = []
        try:
            said, files, _, _ = socket.recv_fds(call, LARGEST_BYTES, FILES, socket.MSG_DONTWAIT)
            _check(said, files)
            socket.send_fds(self._lab, [NUMBER.pack(call.fileno()) + said], files)
            self._running[call.fileno()] = call
        except LabError as error:
            _answer(call, error.problem.encode())
        except (OSError, ValueError, RecursionError, TypeError):
            call.close()  # it makes no sense: whoever made it sees that the line is closed
        finally:
            for fd in files:
                os.close(fd)

    def _pass_back(self) -> bool:
        """Answer a call as the sandbox says; False when that has hung up."""
        said = self._lab.recv(NUMBER.size + LARGEST_BYTES)
        if not said:
            return False
        (number,) = NUMBER.unpack_from(said)
        _answer(self._running.pop(number), said[NUMBER.size :])
        return True


def _answer(call: socket.socket, said: bytes) -> None:
    with call, suppress(OSError):  # nobody waits
        call.send(said, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _check(said: bytes, files: list[int]) -> None:
    """Raises LabError: a file is of another kind than the lab takes; ValueError, RecursionError, TypeError: it is no
    call."""
    name, command = json.loads(said)
    if len(files) != FILES or not isinstance(name, str) or not isinstance(command, str):
        raise ValueError("no call")
    if not all(map(_closes_at_once, files)):
        raise LabError("a command on another host takes only files, pipes and terminals as input and output")


def _closes_at_once(fd: int) -> bool:
    found = os.fstat(fd)
    if stat.S_ISCHR(found.st_mode):
        return os.major(found.st_rdev) == MEMORY or os.isatty(fd)
    return stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)


def take(node: socket.socket, start: Start) -> bool:
    """Do, in the sandbox, what a node's first process passes on; False when that has ended."""
    size = NUMBER.size + LARGEST_BYTES
    said, files, _, _ = socket.recv_fds(node, size, FILES, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    if not said:
        return False
    tell = partial(_tell, node, said[: NUMBER.size])
    try:
        if len(files) != FILES:
            raise LabError("the lab has too many open files")
        name, command = json.loads(said[NUMBER.size :])
        start(name, command, files, tell)
        files = []  # the command has them
    except TestbedError as error:
        tell(error.problem.encode())
    except OSError as error:
        tell(f"cannot start a command on another host: {error}".encode())
    finally:
        for fd in files:
            os.close(fd)
    return True


def _tell(node: socket.socket, number: bytes, said: bytes) -> None:
    with suppress(OSError):  # it does not listen: its own programs wait
        node.send(number + said[:LARGEST_BYTES], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
