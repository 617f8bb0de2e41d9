"""Connection of ``testbed up``, which holds a lab, and ``testbed exec``, which reaches it from another terminal.

They meet at a unix socket in a folder that only this user may enter, so that no other can listen there first. ``up``
keeps the folder locked while it runs: the kernel frees a lock however its holder ends, so a socket that a killed ``up``
has left is told from one at which somebody listens. Each side checks that the other belongs to the same user. ``exec``
passes its own standard input, output and error as file descriptors, so the command on the node reads and writes the
caller's terminal directly.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import pwd
import select
import signal
import socket
import struct
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from testbed.base.errors import LabError, PrivilegeError, TestbedError, UsageError
from testbed.base.listing import shortened
from testbed.files import private
from testbed.spec.yaml import WRITES_ONE
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    from testbed.lab.programs import Command

NAME_VARIABLE = "TESTBED_UP"
RUNTIME_VARIABLE = "XDG_RUNTIME_DIR"
LARGEST_MESSAGE = 128 * 2**10
SOCKET = "socket"
TERMINAL = (0, 1, 2)
"""Standard input, output and error of this process."""
_OTHER_VERSION = "use the same testbed for up and exec"
_NOT_UP = f"start one in another terminal: testbed up SPEC; {WRITES_ONE}"


class Attachable(Protocol):
    """A lab that can run a command on a node on somebody else's terminal; readable for select() when it has ended."""

    def fileno(self) -> int: ...

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Command:
        """Start a command with the given standard input, output and error."""


def place(name: str | None = None) -> Path:
    """Folder of this user's lab; a name, by default that in ``TESTBED_UP``, lets one user hold several labs. Raises
    PrivilegeError as :func:`_runtime`."""
    name = os.environ.get(NAME_VARIABLE, "") if name is None else name
    return _runtime() / f"up-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _runtime() -> Path:
    """Make the folder where this user's processes meet: in the folder that the system has for them, in the user's home,
    or below the folder for temporary files, whichever there is first. In the last one, other users can take the name.

    Raises:
        PrivilegeError: all that is left is a folder there that is another user's.
    """
    uid = os.getuid()
    for above in (os.environ.get(RUNTIME_VARIABLE), f"/run/user/{uid}"):
        with suppress(OSError, PrivilegeError):  # it is not there, or, after sudo, another user's
            if above:
                os.close(private.enter(Path(above)))
                return _made(Path(above, "testbed"))
    with suppress(OSError, PrivilegeError, KeyError):  # there is no such home, or we may not write there
        home = Path(pwd.getpwuid(uid).pw_dir)
        os.close(private.enter(home))
        cache = home / ".cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        os.close(private.enter(cache))
        return _made(cache / f"testbed-{socket.gethostname()}")  # several machines may have the same home
    try:
        return _made(Path(tempfile.gettempdir(), f"testbed-{uid}"))
    except PrivilegeError as error:
        fix = f"remove it, or set {RUNTIME_VARIABLE} to a folder of your own, for up and exec alike"
        raise PrivilegeError(error.problem, fix=fix) from None


def _made(folder: Path) -> Path:
    os.close(private.make(folder))
    return folder


class Doorway:
    """Socket that listens for ``exec``, and runs its commands in the lab, several at once."""

    def __init__(self, lab: Attachable, topology: Topology) -> None:
        """
        Raises:
            UsageError: this user holds a lab already.
            PrivilegeError: the folder in which they meet is another user's.
        """
        self._lab, self._topology = lab, topology
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ExitStack() as stack:
            stack.callback(self._socket.close)
            path = place()
            try:
                folder = stack.enter_context(private.locked(path, wait=False))
            except BlockingIOError:
                raise UsageError("a lab is up already", fix="end the other testbed up with Ctrl-C first") from None
            stack.callback((path / SOCKET).unlink, missing_ok=True)
            (path / SOCKET).unlink(missing_ok=True)  # of one that was killed
            self._socket.bind(_short(folder))
            self._socket.listen()
            self._end = stack.pop_all()

    def serve(self, until: int | None = None) -> None:
        """Answer until interrupted, or until the open file ``until`` ends: a pipe ends with the program that holds its
        other end.

        Raises:
            LabError: the lab ended.
        """
        waiting: list[socket.socket | Attachable | int] = [self._socket, self._lab]
        waiting += [] if until is None else [until]
        try:
            while self._lab not in (ready := select.select(waiting, [], [])[0]):
                if until in ready and not os.read(until, LARGEST_MESSAGE):
                    return
                if self._socket in ready:
                    connection, _ = self._socket.accept()
                    threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            raise LabError("the lab's process was ended, and everything in the lab with it", fix="start it again")
        finally:
            self.close()

    def close(self) -> None:
        """Listen no more, and leave nothing behind."""
        self._end.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            files: list[int] = []
            try:
                if peer_uid(connection) != os.getuid():
                    return
                message, files, _, _ = socket.recv_fds(connection, LARGEST_MESSAGE, 3)
                node, command = asked(message)
                reply = self._run(node, command, files, connection)
            except TestbedError as error:
                reply = {"problem": error.problem, "fix": error.fix}
            except OSError as error:
                reply = {"problem": f"the lab could not start it: {error}", "fix": None}
            finally:
                for fd in files:
                    os.close(fd)
            try:
                connection.send(json.dumps(reply).encode())
            except OSError:
                return  # the caller has gone, and with it whoever wanted to know

    def _run(self, node: str, words: list[str], files: list[int], connection: socket.socket) -> dict[str, Any]:
        """Start the command, pass on the caller's signals, and end it when the caller goes.

        Raises:
            UsageError: the lab has no such node, or the caller did not send its three files.
        """
        index = find_node(self._topology, node)
        if len(files) != 3:
            raise UsageError(f"{len(files)} files came, and not standard input, output and error", fix=_OTHER_VERSION)
        stdin, stdout, stderr = files
        command = self._lab.attach(index, words, (stdin, stdout, stderr))
        waiting: list[Command | socket.socket] = [command, connection]
        while command not in (ready := select.select(waiting, [], [])[0]):
            if connection in ready:
                number = connection.recv(1)
                command.signal(number[0] if number else signal.SIGKILL)
                if not number:
                    break
        return {"status": command.wait()}


def execute(node: str, command: Sequence[str], files: tuple[int, int, int] = TERMINAL, name: str | None = None) -> int:
    """Run a command on a node of the lab that this user holds, with these files as its standard input, output and
    error; return its exit status. ``name`` as in :func:`place`.

    Raises:
        UsageError: no lab is up, or it has no such node.
        PrivilegeError: the folder in which they meet is another user's.
        LabError: the lab ended meanwhile.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        _connect(connection, name)
        if peer_uid(connection) != os.getuid():
            raise UsageError("the lab that listens belongs to another user", fix=_NOT_UP)
        message = json.dumps({"node": node, "command": list(command)}).encode()
        if len(message) > LARGEST_MESSAGE:
            raise UsageError(f"the command has {len(message):,} bytes", fix="put it into a script and run that")
        try:
            socket.send_fds(connection, [message], files)
            answer = _answer(connection) if files == TERMINAL else connection.recv(LARGEST_MESSAGE)
        except OSError:
            answer = b""
    if not answer:
        raise LabError("the lab ended while the command ran", fix=_NOT_UP)
    return status(answer)


def _connect(connection: socket.socket, name: str | None) -> None:
    """Connect to the lab that is up. Raises UsageError and PrivilegeError as :func:`execute`."""
    try:
        folder = private.enter(place(name))
    except FileNotFoundError:
        raise UsageError("no lab is up", fix=_NOT_UP) from None
    try:
        connection.connect(_short(folder))
    except OSError:
        raise UsageError("no lab is up", fix=_NOT_UP) from None
    finally:
        os.close(folder)


def _short(folder: int) -> str:
    """Short path of the socket in an open folder: a socket's path may have 107 characters, and the folder's may be
    longer."""
    return f"/proc/self/fd/{folder}/{SOCKET}"


def asked(message: bytes) -> tuple[str, list[str]]:
    """Parse the node and the words of a request.

    Raises:
        UsageError: it is none.
    """
    request = _plain(message)
    node, words = request.get("node"), request.get("command")
    if not isinstance(node, str) or not isinstance(words, list) or not words or not all(map(_is_word, words)):
        raise UsageError(f"{message[:80]!r} asks for no command", fix=_OTHER_VERSION)
    return node, words


def status(answer: bytes) -> int:
    """Parse the exit status that a lab answers with.

    Raises:
        UsageError: it refused.
        LabError: it answered something else.
    """
    reply = _plain(answer)
    problem, fix, found = reply.get("problem"), reply.get("fix"), reply.get("status")
    if isinstance(problem, str) and isinstance(fix, str | None):
        raise UsageError(problem, fix=fix)
    if not isinstance(found, int):
        raise LabError(f"the lab answered {answer[:80]!r}, which is no status", fix=_OTHER_VERSION)
    return found


def _plain(message: bytes) -> dict[str, Any]:
    """Parse the JSON object in a message; an empty one if it holds none."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_word(value: object) -> bool:
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _answer(connection: socket.socket) -> bytes:
    """Wait for the lab's reply; the first Ctrl-C goes to the command, which may print its summary, the second ends
    us."""
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
    fix = f"did you mean {near[0]!r}?" if near else f"the nodes are {shortened(list(topology.index), 12)}"
    raise UsageError(f"{topology.expression} has no node {name!r}", fix=fix)


def peer_uid(connection: socket.socket) -> int:
    """Identify the user at the other end (SO_PEERCRED: pid, uid, gid)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
