"""Processes that the agent of a host starts there: forked workers, programs, bursts; and what is told of them.

All of it runs as the user of the SSH session, and files are written and read with that user's rights
(:mod:`testbed.lab.baremetal.on_hosts.rights`): workers can plant links wherever files are.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from testbed.base.errors import HostError
from testbed.files.following import Growth
from testbed.files.foreign import UnfitError, opened
from testbed.lab import homes
from testbed.lab.baremetal.nics import undoing
from testbed.lab.baremetal.on_hosts.rights import as_root, become_user
from testbed.lab.netns.on_nodes.processes import exit_with, is_stopped, signal_group
from testbed.machine.processes import cpu_s

PIECE_BYTES = 1 << 20
LONGEST_LINE_BYTES = 4 << 20
"""The most bytes of a line to the controller; a piece of a file has a third of it."""
MOST_TOLD_BYTES = 2 << 30
"""The most bytes told of one file: twice what a log may have (:mod:`testbed.execution.supervise`), which ends the trial
first. The controller writes no more of one either (:mod:`testbed.lab.baremetal.controller.fleet`)."""
PIECES_AT_END = 4
"""Pieces of a file of an ended process that are told before requests are answered again; 16 MiB."""
END_S = 5.0
"""Seconds for which the agent goes on ending processes that start new ones as fast."""


@dataclass
class Child:
    """A process that was started: a ``worker`` has a name, and is told of when it ends, with its ``outputs``."""

    started_s: float
    worker: str | None = None
    run: int | None = None
    followed: Mapping[str, Growth] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    status: int | None = None
    ended_s: float = 0.0


class Processes:
    """Processes below a working directory; files are named relative to it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._children: dict[int, Child] = {}
        self._ended: list[Child] = []
        """Children that have ended. They are told of once all that they wrote is told, which may take a while for a
        long log."""

    @property
    def followed(self) -> bool:
        """Whether there are files to look at."""
        return any(child.followed for child in (*self._children.values(), *self._ended))

    def workers(self) -> dict[str, int]:
        """PIDs of workers that run, by name."""
        return {child.worker: pid for pid, child in self._children.items() if child.worker is not None}

    def below(self, name: str) -> Path:
        """Path of a file below the working directory. Raises HostError: it would be elsewhere."""
        path = Path(os.path.normpath(self.work / name))
        if not path.is_relative_to(self.work):
            raise HostError(f"{name!r:.200} is not below {self.work}", fix="name a file below it")
        return path

    def room_for(self, name: str) -> Path:
        """Make the directories above a file that is to be written; return its path."""
        path = self.below(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _growths(self, names: Iterable[str]) -> dict[str, Growth]:
        """Followers of files whose growth is to be told."""
        return {name: Growth(self.below(name), MOST_TOLD_BYTES) for name in names}

    def worker(
        self, body: Callable[[], int], log: str, name: str, followed: Sequence[str], outputs: Sequence[str]
    ) -> None:
        """Fork a worker that runs ``body`` in a process of its own."""
        for path in followed:
            self.room_for(path).unlink(missing_ok=True)
        child = Child(time.monotonic(), worker=name, followed=self._growths(followed), outputs=tuple(outputs))
        self._children[self._fork(body, self.room_for(log))] = child

    def beside(self, body: Callable[[], int], log: str, followed: str, keep: int | None = None) -> int:
        """Fork a process beside the workers, and return its PID. Of our files it can ``keep`` one open."""
        growths = self._growths([followed])
        pid = self._fork(body, self.room_for(log), keep)
        self._children[pid] = Child(time.monotonic(), run=pid, followed=growths)
        return pid

    def signal(self, number: int, pid: int | None) -> None:
        """Signal one program's session, or all; a program that has ended has no number any more."""
        self.reap()
        self._signal(number, [child for child in self._children if pid in (None, child)])

    def signal_worker(self, number: int, name: str) -> None:
        """Signal one worker's session."""
        self.reap()
        self._signal(number, [pid for pid, child in self._children.items() if child.worker == name])

    def _signal(self, number: int, pids: Iterable[int]) -> None:
        for pid in pids:
            with as_root(), suppress(ProcessLookupError):
                signal_group(pid, number)

    def kill_workers(self) -> None:
        """End every worker; nobody is told."""
        self.reap()
        for pid in [pid for pid, child in self._children.items() if child.worker is not None]:
            self._end(pid)
        self._ended = [child for child in self._ended if child.worker is None]

    def kill_all(self) -> None:
        """End everything, and tell of nothing any more."""
        for pid in list(self._children):
            self._end(pid)
        self._end_orphans()
        self._ended.clear()

    def stopped(self) -> list[str]:
        """Workers that were stopped by a signal."""
        return [name for name, pid in self._workers().items() if is_stopped(pid)]

    def cpu_s(self) -> dict[str, float]:
        """Processor time of workers that run, and of all that each has started."""
        return {name: cpu_s(pid) for name, pid in self._workers().items()}

    def _workers(self) -> dict[str, int]:
        self.reap()
        return {child.worker: pid for pid, child in self._children.items() if child.worker is not None}

    def reap(self) -> None:
        """Collect the children that have ended, orphans included, and tell of those that were started here."""
        with suppress(ChildProcessError):  # none is left
            while (done := os.waitpid(-1, os.WNOHANG))[0]:
                if child := self._children.pop(done[0], None):
                    child.status, child.ended_s = os.waitstatus_to_exitcode(done[1]), time.monotonic()
                    self._ended.append(child)
        self._tell_ends()

    def tell_growth(self) -> None:
        """Tell of what files have grown by, a piece of each."""
        for child in self._children.values():
            _tell_pieces(child)
        self._tell_ends()

    def _tell_ends(self) -> None:
        """Tell of processes that have ended, once all of their files is told. Of a long log some is told now, and the
        rest later: requests are to be answered meanwhile."""
        for child in list(self._ended):
            if all(_tell_pieces(child) for _ in range(PIECES_AT_END)):
                continue
            self._ended.remove(child)
            if child.worker is None:
                tell(ended=child.run, status=child.status)
                continue
            for name in child.outputs:
                self._tell_whole(name)
            tell(exit=child.worker, status=child.status, started_s=child.started_s, ended_s=child.ended_s)

    def _tell_whole(self, name: str) -> None:
        """Tell all of a file; nothing if there is no regular file: who wants it says that it is missing."""
        with suppress(OSError, UnfitError), opened(self.below(name), self.work) as file:
            while file.tell() < MOST_TOLD_BYTES and (data := file.read(PIECE_BYTES)):
                tell(grown=name, data=base64.b64encode(data).decode())

    def _fork(self, body: Callable[[], int], log: Path, keep: int | None = None) -> int:
        """Fork a child that leads a session, writes into ``log``, and exits with the body's result."""
        pid = os.fork()
        if pid == 0:

            def there() -> int:
                _take_files(log, 2 if keep is None else keep)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)  # the agent has other plans
                become_user()
                return body()

            exit_with(there)
        return pid

    def _end(self, pid: int) -> None:
        with as_root():
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):  # before it leads a session
                os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        del self._children[pid]

    def _end_orphans(self) -> None:
        """End what a worker started in a session of its own: it became a child of this process when its parent ended
        (:func:`testbed.lab.netns.kernel_interface.kernel.adopt_orphans`)."""
        give_up_s = time.monotonic() + END_S
        while (orphans := _orphans()) and time.monotonic() < give_up_s:
            for pid in orphans:
                with as_root():
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _tell_pieces(child: Child) -> bool:
    """Tell of the next piece of each of a child's files; whether there was one."""
    grown = {name: data for name, growth in child.followed.items() if (data := growth.new())}
    for name, data in grown.items():
        for at in range(0, len(data), PIECE_BYTES):
            tell(grown=name, data=base64.b64encode(data[at : at + PIECE_BYTES]).decode())
    return bool(grown)


def _orphans() -> list[int]:
    """Children of this process but the one that undoes the shaping in time."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):  # a longer pattern looks into each, and fails if one has ended
        with suppress(OSError):  # it has ended meanwhile
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid() and undoing.WAITER not in undoing.arguments(int(process.name)):
                found.append(int(process.name))
    return found


def program(
    words: Sequence[str], environment: Mapping[str, str], folder: str, note: str = ""
) -> Callable[[], NoReturn]:
    """Make a function that replaces its process by that program; its output begins with ``note``. Raises HostError: the
    folder is not there."""
    if not Path(folder).is_dir():
        raise HostError(f"it has no directory {folder}", fix="put there what the command needs, at the same place")

    def run() -> NoReturn:
        os.chdir(folder)
        os.environ.update(environment)
        homes.settle(os.environ)
        if note:
            print(note, flush=True)
        try:
            os.execvp(words[0], list(words))
        except OSError as error:
            raise OSError(error.errno, f"cannot start {words[0]} in {folder}: {error.strerror}") from None

    return run


def _take_files(log: Path, kept: int) -> None:
    """Write into ``log``, read nothing, lead a session, and close all other files but one."""
    null, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.setsid()
    for fd, number in ((null, 0), (output, 1), (output, 2)):
        os.dup2(fd, number)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def tell(**fields: Any) -> None:
    """Write one line to the controller, and all of it: where PYTHONUNBUFFERED is set and a signal comes, sys.stdout
    would leave out the rest. Raises HostError: it is longer than the controller reads; nothing is written."""
    line = json.dumps(fields).encode() + b"\n"
    if len(line) > LONGEST_LINE_BYTES:
        raise HostError(f"an answer has {len(line):,} bytes, and may have {LONGEST_LINE_BYTES:,}", fix="ask for less")
    left = memoryview(line)
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]
