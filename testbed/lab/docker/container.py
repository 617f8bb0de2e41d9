"""A host's container, seen from the harness: start programs in it, signal them, wait for them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.docker.inside import Inside
from testbed.lab.docker.place import Containers
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.on_nodes.attached import Attached, Files
from testbed.lab.programs import Program
from testbed.lab.requests import Call

ANSWER_TIMEOUT_S = 30.0
"""Seconds that an answer may take which should take milliseconds."""
END_TIMEOUT_S = 5.0
"""Seconds that an answer may take when the container is ended anyway."""
PAGE_BYTES = 4096


class Container:
    """A container whose first process has said that it is there; methods may be called from several threads.

    Attributes:
        namespace: an open file of its network namespace.
        pid: of its first process, on this machine; 0 if it cannot be seen from here.
        python: what starts Python in it.
    """

    def __init__(self, node: str, line: Wire, namespace: int, said: dict[str, Any]) -> None:
        self.node = node
        self.namespace = namespace
        self.pid = line.peer_pid
        self.python = str(said["python"])
        self.cpus: float | None = said["cpus"]
        self.memory_bytes: int | None = said["memory_bytes"]
        self._line = line
        self._lock = threading.Lock()

    def run(self, program: Program, files: Files) -> tuple[int, Attached]:
        """Start a program with the given standard input, output and error (the caller keeps them); return its PID in
        the container, and what tells of its end."""
        status, theirs = socket.socketpair()
        with theirs:
            words, environment = list(program.words), dict(program.environment)
            pid = self._number(self._ask(Inside.run(words, environment, program.folder, (*files, theirs.fileno()))))
        return pid, Attached(status, lambda number: self._ask(Inside.signal(pid, number)))

    def signal_all(self, number: int) -> None:
        """Send a signal to everything that was started here."""
        self._ask(Inside.signal_all(number))

    def stopped(self, pids: Sequence[int]) -> list[int]:
        """PIDs of those of some programs that a signal has stopped."""
        found = self._ask(Inside.stopped(list(pids)))
        return [self._number(pid) for pid in (found if isinstance(found, list) else [found])]

    def namespaces(self, *kinds: str) -> list[int]:
        """Open namespaces of the container, such as ``mnt``; the caller closes them.

        Raises:
            LabError: its first process is not to be seen from here, or has ended.
        """
        try:
            process = os.open(f"/proc/{self.pid}/ns", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise self.ended() from None
        with ExitStack() as undo:
            undo.callback(os.close, process)
            found = [os.open(kind, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process) for kind in ("net", *kinds)]
            network = found.pop(0)
            undo.callback(os.close, network)
            if not os.path.sameopenfile(network, self.namespace):  # another process has the number now
                for fd in found:
                    os.close(fd)
                raise self.ended()
        return found

    def ended(self) -> LabError:
        """Error to raise when the container has ended."""
        return LabError(
            f"the container of {self.node} has ended, and what ran in it",
            fix="see who ended it (docker events), and whether the machine's memory ran out (dmesg)",
        )

    def close(self) -> None:
        """End everything in the container, then it ends itself; what cannot, because it stands still, is for Docker to
        kill."""
        if self.namespace < 0:
            return
        with suppress(LabError):
            self._ask(Inside.end_all(), timeout_s=END_TIMEOUT_S)
        self._line.close()
        os.close(self.namespace)
        self.namespace = -1

    def _ask(self, call: Call[object], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a request and return its result, which is not trusted: whatever runs in a container may say anything."""
        with self._lock:
            try:
                self._line.send([call.name, *call.arguments.values()], call.files, timeout_s)
                answer, _ = self._line.receive(timeout_s)
            except WireClosedError:
                raise self.ended() from None
            except TimeoutError:
                self._line.close()  # an answer that comes later must not be taken for another's
                raise LabError(
                    f"the container of {self.node} did not answer for {timeout_s:g} s",
                    fix="see whether somebody paused it: docker ps",
                ) from None
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            raise LabError(f"{self.node}: {answer['error']:.1000}")
        if not isinstance(answer, dict) or "result" not in answer:
            raise self._odd(answer)
        return answer["result"]

    def _number(self, answer: Any) -> int:
        if type(answer) is not int:
            raise self._odd(answer)
        return answer

    def _odd(self, answer: Any) -> LabError:
        return LabError(f"the container of {self.node} answered {answer!r:.100}", fix="see what its image starts")


def check_limits(container: Container, asked: Containers) -> None:
    """
    Raises:
        LabError: the kernel limits a container otherwise than it was asked to.
    """
    fix = "use a kernel with the cgroup controllers cpu and memory (docker info names what is missing)"
    if container.cpus is None or abs(container.cpus - asked.cpus) > 0.01 * asked.cpus:
        raise LabError(f"{container.node}: asked for {asked.cpus:g} CPUs, the kernel has {container.cpus}", fix=fix)
    if container.memory_bytes is None or abs(container.memory_bytes - asked.memory_bytes) >= PAGE_BYTES:
        raise LabError(
            f"{container.node}: asked for {asked.memory_bytes} B of memory, the kernel has {container.memory_bytes}",
            fix=fix,
        )
