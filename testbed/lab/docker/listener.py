"""Where containers reach the harness: a socket that is mounted into each, and into nothing else.

A container's first process arrives there, and programs in it call other hosts (:mod:`testbed.lab.docker.agent`).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed import private
from testbed.errors import TestbedError
from testbed.files import open_regular
from testbed.lab.docker.container import Container
from testbed.lab.docker.daemon import Owner
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.attached import Attached, Files

PREFIX, MARK = "testbed-docker-", "owner"
LONGEST_MARK = 200
Start = Callable[[str, list[str], Files], Attached]
"""Starts a command on the host of that name."""
QUEUE = 1024
"""Containers that may knock at once: all that a lab can have."""


class Listener:
    """Listens in a folder of its own until closed; ``path`` is the socket."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._arrived: dict[str, Container] = {}
        self._news = threading.Condition()
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # only we may enter
        (self._folder / MARK).write_text(str(Owner.of(os.getpid())))
        self.path = str(self._folder / "socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(self.path)
        self._socket.listen(QUEUE)
        threading.Thread(target=self._accept, daemon=True).start()

    def arrivals(self, nodes: Collection[str], timeout_s: float) -> dict[str, Container]:
        """Those of some nodes whose containers have arrived, by name: all, or fewer when time is up."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while self._arrived.keys() < set(nodes) and (left_s := deadline - time.monotonic()) > 0:
                self._news.wait(left_s)
            return dict(self._arrived)

    def hide(self) -> None:
        """Take the socket out of the file system, where nothing is left then however we end: containers that have it
        mounted keep it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        self.hide()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever accepts
        self._socket.close()

    @staticmethod
    def folders() -> list[tuple[Path, Owner]]:
        """This user's folders of such listeners that have not hidden theirs, with the process that each is of."""
        found = []
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError, ValueError, TestbedError):  # somebody else's of a similar name
                os.close(private.enter(folder))
                with open_regular(folder / MARK) as mark:
                    found.append((folder, Owner.parse(mark.read(LONGEST_MARK).decode())))
        return found

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._greet, args=(Wire(connection),), daemon=True).start()

    def _greet(self, line: Wire) -> None:
        try:
            said, files = line.receive()
        except WireClosedError:
            return
        if "arrived" in said:
            container = Container(said["arrived"], line, files[0], said)
            with self._news:
                self._arrived[container.node] = container
                self._news.notify_all()
        else:
            self._call(said, files, line)

    def _call(self, said: dict[str, Any], files: list[int], line: Wire) -> None:
        """Run a command for a program in a container, and end it when that program is gone."""
        try:
            stdin, stdout, stderr = files
            attached = self._start(said["call"], ["sh", "-c", said["command"]], (stdin, stdout, stderr))
            for fd in files:
                os.close(fd)
            if line.fileno() in select.select([attached.fileno(), line.fileno()], [], [])[0]:
                attached.signal(signal.SIGKILL)
            answer: dict[str, Any] = {"status": attached.wait()}
        except TestbedError as error:
            answer = {"error": error.problem}
        with suppress(WireClosedError):  # it may have gone
            line.send(answer)
        line.close()
