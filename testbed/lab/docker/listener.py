"""Sockets by which containers reach the harness: one for each host, which is mounted into its container and nowhere
else.

So whoever arrives at one is of that container, whatever it says. A container's first process arrives there, and, in a
trial whose library needs it, programs call other hosts (:mod:`testbed.lab.docker.agent`).
"""

from __future__ import annotations

import os
import select
import selectors
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from testbed.base.bounded_json import LARGEST_NUMBER
from testbed.base.errors import LabError, TestbedError
from testbed.files import private
from testbed.files.foreign import read_bytes
from testbed.lab.docker.container import Container
from testbed.lab.docker.daemon import Owner
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.on_nodes.processes import Files

PREFIX, MARK = "testbed-docker-", "owner"
LONGEST_MARK = 200
Start = Callable[[str, list[str], Files], Attached]
"""Function that starts a command on the host of that name."""
QUEUE = 1024
"""The most programs of a host that may knock at once: more wait until some were heard."""
MOST_SILENT = 8
"""Connections to one host's socket that may be silent, before they say what they want; others wait outside until these
speak, or are sent away."""
GREETING_S = 5.0
"""Seconds within which a new connection is to say what it is."""
LOOK_S, PAUSE_S = 0.5, 0.05


@dataclass
class Door:
    """One host's socket: connections that arrived there and have been silent since, and the number of its calls that go
    on."""

    name: str
    socket: socket.socket
    silent: dict[Wire, float] = field(default_factory=dict)
    has_arrived: bool = False
    calls: int = 0


class Listener:
    """Listener in a folder of its own, for each host, until closed."""

    def __init__(self, names: Sequence[str], start: Start) -> None:
        self._start = start
        self._arrived: dict[str, Container] = {}
        self._news = threading.Condition()
        self._answers_calls = False
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # only we may enter
        (self._folder / MARK).write_text(str(Owner.of(os.getpid())))
        self._selector = selectors.DefaultSelector()
        self._doors = {name: Door(name, _listen(str(self._folder / str(i)))) for i, name in enumerate(names)}
        self._paths = {name: str(self._folder / str(i)) for i, name in enumerate(names)}
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def path(self, name: str) -> str:
        """Path of a host's socket."""
        return self._paths[name]

    def answer_calls(self) -> None:
        """Start commands for programs on other hosts from now on."""
        self._answers_calls = True

    def arrivals(self, nodes: Collection[str], timeout_s: float) -> dict[str, Container]:
        """Wait for the containers of some nodes; those that have arrived, by name: all, or fewer when time is up."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while self._arrived.keys() < set(nodes) and (left_s := deadline - time.monotonic()) > 0:
                self._news.wait(left_s)
            return dict(self._arrived)

    def hide(self) -> None:
        """Take the sockets out of the file system, where nothing is left then however we end: containers that have one
        mounted keep it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Stop listening; on return nobody can arrive any more, and all sockets but those of containers that arrived
        are closed."""
        self.hide()
        self._waker.close()
        self._thread.join()

    @staticmethod
    def folders() -> list[tuple[Path, Owner]]:
        """List this user's folders of such listeners that have not hidden theirs, each with the process that it belongs
        to."""
        found = []
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError, ValueError, TestbedError):  # somebody else's of a similar name
                os.close(private.enter(folder))
                found.append((folder, Owner.parse(read_bytes(folder / MARK, LONGEST_MARK, folder).decode())))
        return found

    # The thread.

    def _serve(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ)
        for door in self._doors.values():
            self._listen_at(door)
        while True:
            for key, _ in self._selector.select(LOOK_S):
                if key.fileobj is self._wake:
                    self._end()
                    return
                key.data()
            self._send_away(time.monotonic())

    def _end(self) -> None:
        for door in self._doors.values():
            door.socket.close()
            for line in door.silent:
                line.close()
        self._wake.close()
        self._selector.close()

    def _listen_at(self, door: Door) -> None:
        self._selector.register(door.socket, selectors.EVENT_READ, partial(self._let_in, door))

    def _let_in(self, door: Door) -> None:
        try:
            connection, _ = door.socket.accept()
        except OSError:  # it has gone again; or we may open no more files, until some of the silent are sent away
            time.sleep(PAUSE_S)
            return
        line = Wire(connection)
        door.silent[line] = time.monotonic() + GREETING_S
        self._selector.register(line, selectors.EVENT_READ, partial(self._greet, door, line))
        if len(door.silent) == MOST_SILENT:
            self._selector.unregister(door.socket)

    def _let_go(self, door: Door, line: Wire) -> None:
        """Stop waiting for this connection's greeting."""
        self._selector.unregister(line)
        del door.silent[line]
        if len(door.silent) == MOST_SILENT - 1:
            self._listen_at(door)

    def _send_away(self, now_s: float) -> None:
        for door in self._doors.values():
            for line in [line for line, until_s in door.silent.items() if until_s < now_s]:
                self._let_go(door, line)
                line.close()

    def _greet(self, door: Door, line: Wire) -> None:
        self._let_go(door, line)
        try:
            said, files = line.receive(0)
        except (WireClosedError, TimeoutError):
            line.close()
            return
        if _is_arrival(said, files) and said["arrived"] == door.name and not door.has_arrived:
            door.has_arrived = True
            with self._news:
                self._arrived[door.name] = Container(door.name, line, files[0], said)
                self._news.notify_all()
        elif _is_call(said, files):
            with self._news:
                door.calls += 1
            threading.Thread(target=self._call, args=(door, said, files, line), daemon=True).start()
        else:
            _close(files)
            line.close()

    # A thread for each call.

    def _call(self, door: Door, said: dict[str, Any], files: list[int], line: Wire) -> None:
        """Run a command for a program in a container, and end it when that program is gone."""
        try:
            self._check_allowed(door)
            stdin, stdout, stderr = files
            attached = self._start(said["call"], ["sh", "-c", said["command"]], (stdin, stdout, stderr))
            _close(files)
            files = []
            if line.fileno() in _first_readable(attached.fileno(), line.fileno()):
                attached.signal(signal.SIGKILL)
            answer: dict[str, Any] = {"status": attached.wait()}
        except TestbedError as error:
            answer = {"error": error.problem}
        except OSError as error:  # such as too many open files
            answer = {"error": str(error)}
        finally:
            _close(files)
            with self._news:
                door.calls -= 1
        with suppress(WireClosedError):  # it may have gone
            line.send(answer)
        line.close()

    def _check_allowed(self, door: Door) -> None:
        """Raises LabError: nothing in this trial has a need to start commands on other hosts, or it starts too many."""
        if not self._answers_calls:
            raise LabError("the scheme of this trial starts nothing on other hosts")
        if door.calls > len(self._doors):
            raise LabError(f"{door.name} runs {len(self._doors)} commands on other hosts already")


def _listen(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(path)
    made.listen(QUEUE)
    made.setblocking(False)
    return made


def _is_arrival(said: object, files: Sequence[int]) -> bool:
    """Whether a container's first process says who it is, and lends its network namespace."""
    if not isinstance(said, dict) or len(files) != 1:
        return False
    if not str(Path(f"/proc/self/fd/{files[0]}").readlink()).startswith("net:["):  # no path begins so
        return False
    numbers = [said.get("cpus"), said.get("memory_bytes")]
    numeric = all(
        one is None or (isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= LARGEST_NUMBER)
        for one in numbers
    )
    return numeric and isinstance(said.get("python"), str) and isinstance(said.get("arrived"), str)


def _is_call(said: object, files: Sequence[int]) -> bool:
    """Whether a program wants a command to be started, and gives what it is to read from and to write to."""
    if not isinstance(said, dict) or len(files) != 3:
        return False
    return isinstance(said.get("call"), str) and isinstance(said.get("command"), str)


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


def _first_readable(*files: int) -> set[int]:
    """Wait until some file is readable, and return those that are; unlike select(), for any descriptor."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return {file for file, _ in poll.poll()}
