"""``testbed up`` holds a lab; ``testbed exec`` reaches it from another terminal.

They meet at an abstract unix socket, whose name is the kernel's to free: it vanishes with the process that listens,
however that ends. Each side checks that the other belongs to the same user. ``exec`` passes its own standard input,
output and error as file descriptors, so the command on the node reads and writes the caller's terminal directly.
"""

from __future__ import annotations

import difflib
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from testbed.errors import LabError, TestbedError, UsageError
from topologies.model import Topology

NAME_VARIABLE = "TESTBED_UP"
LARGEST_MESSAGE = 128 * 2**10
_NOT_UP = "start one in another terminal: testbed up experiments/quickstart.yaml"


class Command(Protocol):
    """A command running on a node; readable for select() when it ends."""

    def signal(self, number: int) -> object: ...
    def fileno(self) -> int: ...
    def wait(self) -> int: ...


class Attachable(Protocol):
    """A lab that can run a command on a node on somebody else's terminal; readable for select() when it has ended."""

    def fileno(self) -> int: ...

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Command:
        """Start it with the given standard input, output and error."""


def address(uid: int) -> str:
    """Where a user's lab listens; a name in ``TESTBED_UP`` lets one user hold several labs."""
    name = os.environ.get(NAME_VARIABLE, "")
    return f"\0testbed-up-{uid}" + (f"-{name}" if name else "")


class Doorway:
    """Listens for ``exec`` and runs its commands in the lab, several at once."""

    def __init__(self, lab: Attachable, topology: Topology) -> None:
        """
        Raises:
            UsageError: this user holds a lab already.
        """
        self._lab, self._topology = lab, topology
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.bind(address(os.getuid()))
        except OSError:
            self._socket.close()
            raise UsageError("a lab is up already", fix="end the other testbed up with Ctrl-C first") from None
        self._socket.listen()

    def serve(self) -> None:
        """Answer until interrupted.

        Raises:
            LabError: the lab ended.
        """
        waiting: list[socket.socket | Attachable] = [self._socket, self._lab]
        try:
            while self._lab not in select.select(waiting, [], [])[0]:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            raise LabError("the lab's process was ended, and everything in the lab with it", fix="start it again")
        finally:
            self._socket.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            files: list[int] = []
            try:
                if peer_uid(connection) != os.getuid():
                    return
                message, files, _, _ = socket.recv_fds(connection, LARGEST_MESSAGE, 3)
                reply = self._run(json.loads(message), files, connection)
            except TestbedError as error:
                reply = {"problem": error.problem, "fix": error.fix}
            finally:
                for fd in files:
                    os.close(fd)
            try:
                connection.send(json.dumps(reply).encode())
            except OSError:
                return  # the caller has gone, and with it whoever wanted to know

    def _run(self, request: dict[str, Any], files: list[int], connection: socket.socket) -> dict[str, Any]:
        """Start the command, pass on the caller's signals, and end it when the caller goes."""
        node = find_node(self._topology, request["node"])
        stdin, stdout, stderr = files
        command = self._lab.attach(node, request["command"], (stdin, stdout, stderr))
        waiting: list[Command | socket.socket] = [command, connection]
        while command not in (ready := select.select(waiting, [], [])[0]):
            if connection in ready:
                number = connection.recv(1)
                command.signal(number[0] if number else signal.SIGKILL)
                if not number:
                    break
        return {"status": command.wait()}


def execute(node: str, command: Sequence[str]) -> int:
    """Run a command on a node of the lab that this user holds, on this process's terminal; its exit status.

    Raises:
        UsageError: no lab is up, or it has no such node.
        LabError: the lab ended meanwhile.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(address(os.getuid()))
        except OSError:
            raise UsageError("no lab is up", fix=_NOT_UP) from None
        if peer_uid(connection) != os.getuid():
            raise UsageError("the lab that listens belongs to another user", fix=_NOT_UP)
        message = json.dumps({"node": node, "command": list(command)}).encode()
        if len(message) > LARGEST_MESSAGE:
            raise UsageError(f"the command has {len(message):,} bytes", fix="put it into a script and run that")
        try:
            socket.send_fds(connection, [message], [0, 1, 2])
            answer = _answer(connection)
        except OSError:
            answer = b""
    if not answer:
        raise LabError("the lab ended while the command ran", fix=_NOT_UP)
    reply: dict[str, Any] = json.loads(answer)
    if "problem" in reply:
        raise UsageError(reply["problem"], fix=reply["fix"])
    return int(reply["status"])


def _answer(connection: socket.socket) -> bytes:
    """The lab's reply; the first Ctrl-C goes to the command, which may print its summary, the second ends us."""
    try:
        return connection.recv(LARGEST_MESSAGE)
    except KeyboardInterrupt:
        connection.send(bytes([signal.SIGINT]))
        return connection.recv(LARGEST_MESSAGE)


def find_node(topology: Topology, name: str) -> int:
    """Index of a node.

    Raises:
        UsageError: there is no such node; names the nearest.
    """
    if name in topology.index:
        return topology.index[name]
    near = difflib.get_close_matches(name, topology.index, n=1)
    names = list(topology.index)
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    fix = f"did you mean {near[0]!r}?" if near else f"the nodes are {shown}"
    raise UsageError(f"{topology.expression} has no node {name!r}", fix=fix)


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end (SO_PEERCRED: pid, uid, gid)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
