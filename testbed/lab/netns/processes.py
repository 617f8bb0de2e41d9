"""Processes on the nodes: started by the sandbox's first process, which is also the one that must reap them."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.lab.base import Exit, Launch
from testbed.lab.netns import kernel, mounts
from testbed.lab.netns.enclosure import Enclosure

COMMAND_NOT_STARTED = 127
STATUS = struct.Struct("=id")
"""How an exit status travels: the status, or minus the signal, and when it ended (``time.monotonic()``)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs: a node's name and its network namespace, or None where the caller is on the node.

    What runs in an ``enclosure`` sees no more of the machine than that shows, and keeps no more than ``capabilities``.
    """

    name: str
    namespace: int | None
    enclosure: Enclosure | None = None
    capabilities: tuple[int, ...] = ()

    def fork(self) -> int:
        """As :func:`os.fork`; the child has to :meth:`enter`."""
        return os.fork() if self.enclosure is None else self.enclosure.fork()

    def enter(self) -> None:
        """Be there for good."""
        if self.enclosure is not None:
            self.enclosure.enter()
        elif self.namespace is not None:
            kernel.setns(self.namespace, kernel.CLONE_NEWNET)
            kernel.unshare(kernel.CLONE_NEWUTS | kernel.CLONE_NEWNS)
            kernel.sethostname(self.name)
            mounts.own_interfaces()

    def let_go(self) -> None:
        """Of what a process there is not to have; last, once its files are its own."""
        if self.enclosure is not None:
            kernel.keep_capabilities(self.capabilities)


class Processes:
    """Every process that was started on a node and has not ended, and how the workers among them ended."""

    def __init__(self) -> None:
        self._workers: dict[int, tuple[int, float]] = {}  # node and start, by PID
        self._commands: dict[int, int] = {}
        self._places: dict[int, str] = {}  # name of the node, by PID
        self._exits: list[Exit] = []

    def run(self, place: Place, command: Sequence[str], files: Sequence[int]) -> int:
        """Start a command on a node and return its PID.

        ``files`` are standard input, output, error, and a stream on which the exit status is reported.
        """
        return self.call(place, lambda: os.execvp(command[0], list(command)), files)

    def call(self, place: Place, body: Callable[[], int], files: Sequence[int], *, keep: bool = False) -> int:
        """Call ``body`` in a process of its own, as :meth:`run` does a command; it can ``keep`` all open files."""
        stdio, status = list(files[:3]), files[3]
        pid = place.fork()
        if pid == 0:
            _in_child(place, stdio, body, keep=keep)
        for fd in stdio:
            os.close(fd)
        self._commands[pid] = status
        self._places[pid] = place.name
        return pid

    def launch(self, worker: Launch, place: Place, body: Callable[[Launch], int]) -> None:
        """Fork one worker: ``body(worker)`` runs on the node with its output in the log; its result is the status."""
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        log = os.open(worker.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        started_s = time.monotonic()
        pid = place.fork()
        if pid == 0:
            _in_child(place, [null, log, log], lambda: body(worker))
        os.close(null)
        os.close(log)
        self._workers[pid] = worker.node, started_s
        self._places[pid] = place.name

    def reap(self) -> None:
        """Collect every process that has ended, orphans included."""
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, os.waitstatus_to_exitcode(raw))

    def exits(self) -> list[Exit]:
        """Workers that ended since the last call."""
        found, self._exits = self._exits, []
        return found

    def stopped(self) -> list[int]:
        """Nodes whose worker was stopped by a signal."""
        self.reap()
        return sorted(node for pid, (node, _) in self._workers.items() if is_stopped(pid))

    def signal(self, pid: int, number: int) -> None:
        """Signal a command started by :meth:`run` and the processes it started."""
        if pid in self._commands:
            signal_group(pid, number)

    def signal_node(self, name: str, number: int) -> None:
        """Signal every worker and command of one node, and the processes they started."""
        self.reap()
        for pid, place in self._places.items():
            if place == name:
                signal_group(pid, number)

    def kill_workers(self) -> None:
        """End every worker now; those that this ends are not reported as exits."""
        self.reap()
        for pid in self._workers:
            signal_group(pid, signal.SIGKILL)
        for pid in list(self._workers):
            os.waitpid(pid, 0)
            del self._places[pid]
        self._workers.clear()

    def kill_all(self) -> None:
        """End every process of the sandbox but the caller, and forget workers' exits."""
        with suppress(ProcessLookupError):  # there may be none
            os.kill(-1, signal.SIGKILL)
        with suppress(ChildProcessError):  # the last one has gone
            while True:
                pid, raw = os.waitpid(-1, 0)
                self._ended(pid, os.waitstatus_to_exitcode(raw))
        self._exits.clear()

    def _ended(self, pid: int, status: int) -> None:
        self._places.pop(pid, None)  # orphans have none
        if pid in self._workers:
            node, started_s = self._workers.pop(pid)
            self._exits.append(Exit(node, status, started_s, time.monotonic()))
        elif pid in self._commands:
            with socket.socket(fileno=self._commands.pop(pid)) as stream, suppress(OSError):  # nobody waits
                stream.send(STATUS.pack(status, time.monotonic()), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a child that has not been reaped (its state, see proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


def run_program(launch: Launch) -> NoReturn:
    """Become a launch's program. Raises OSError, which names it, if it cannot be started."""
    assert launch.program
    words = launch.program.words
    try:
        os.chdir(launch.program.folder)
        os.environ.update(launch.program.environment)
        os.execvp(words[0], words)
    except OSError as error:
        raise OSError(error.errno, f"cannot start {words[0]} in {launch.program.folder}: {error.strerror}") from None


def signal_group(pid: int, number: int) -> None:
    """Signal a session's processes, or the child alone while it does not lead a session yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def _in_child(place: Place, stdio: Sequence[int], body: Callable[[], int], *, keep: bool = False) -> NoReturn:
    """The rest of a forked child's life: enter the node, put files in place, run ``body`` and exit with its result."""

    def there() -> int:
        place.enter()
        _take_files(stdio, keep=keep)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        place.let_go()
        return body()

    exit_with(there, f"{place.name}: ")


def exit_with(body: Callable[[], int], prefix: str = "") -> NoReturn:
    """The rest of a forked child's life: run ``body`` and exit with its result; what it raises is written to standard
    error, an OSError as a line that begins with ``prefix``."""
    status = COMMAND_NOT_STARTED
    try:
        status = body()
    except SystemExit as wish:
        status = wish.code if isinstance(wish.code, int) else int(wish.code is not None)
    except OSError as error:
        os.write(2, f"{prefix}{error}\n".encode())
    except BaseException:
        status = 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _take_files(stdio: Sequence[int], *, keep: bool) -> None:
    """Make ``stdio`` files 0, 1, 2, close all others or keep them, and lead a session (with the terminal, if it is
    one)."""
    spare = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in stdio]
    for number, fd in enumerate(spare):
        os.dup2(fd, number)
    if not keep:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    if os.isatty(0):
        with suppress(PermissionError):  # another session's terminal can be used, but job control stays there
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def memory_bytes() -> int:
    """Proportional set sizes of every process in this PID namespace, added up."""
    total = 0
    for rollup in Path("/proc").glob("[0-9]*/smaps_rollup"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            fields = dict(line.split(":") for line in rollup.read_text().splitlines()[1:])
            total += int(fields["Pss"].split()[0]) * 1024
    return total
