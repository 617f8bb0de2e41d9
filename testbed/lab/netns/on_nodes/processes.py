"""Processes on the nodes: started by the sandbox's first process, which is also the one that must reap them."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import socket
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

from testbed.lab import homes
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes.calls import Tell
from testbed.lab.netns.on_nodes.enclosure import KEPT, Enclosure
from testbed.lab.programs import Exit, Launch

COMMAND_NOT_STARTED = 127
NOT_STARTED = (
    "\n  fix: give a program that the node has (in the lab netns those of this machine), or the path of a file that "
    "may be executed"
)
KILLED_S, LOOK_S = 2.0, 0.002
"""Seconds that killed workers may take to end (64 take 0.2 s), and seconds between two looks."""
STATUS = struct.Struct("=id")
"""Layout of an exit status as it is sent: the status, or minus the signal, and when it ended (``time.monotonic()``)."""

Files = tuple[int, int, int]
"""Standard input, output and error."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Place:
    """Place where a process runs: a node's name and its network namespace, or None where the caller is on the node.

    What runs in an ``enclosure`` sees no more of the machine than that shows.
    """

    name: str
    namespace: int | None
    enclosure: Enclosure | None = None

    def fork(self) -> int:
        """Fork, as :func:`os.fork`; the child has to :meth:`enter`."""
        return os.fork() if self.enclosure is None else self.enclosure.fork()

    def enter(self) -> None:
        """Enter the place for good."""
        if self.enclosure is not None:
            self.enclosure.enter()
        elif self.namespace is not None:
            kernel.setns(self.namespace, kernel.CLONE_NEWNET)
            kernel.unshare(kernel.CLONE_NEWUTS | kernel.CLONE_NEWNS)
            kernel.sethostname(self.name)
            with suppress(PermissionError):  # of a user who is not root, who can change no interface that is shown then
                kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)

    def let_go(self) -> None:
        """Let go of the rights that a process there is not to have; last, once its files are its own."""
        if self.enclosure is not None:
            kernel.leave_no_core()
            kernel.keep_capabilities(KEPT)
            kernel.hide_keys()


class Processes:
    """Processes that were started on a node and have not ended, and how the workers among them ended."""

    def __init__(self) -> None:
        self._workers: dict[int, tuple[Launch, float]] = {}  # with its start, by PID
        self._commands: dict[int, Tell] = {}
        self._places: dict[int, Place] = {}
        self._exits: list[Exit] = []

    def run(self, place: Place, command: Sequence[str], stdio: Sequence[int], tell: Tell) -> int:
        """Start a command on a node and return its PID; ``tell`` its :data:`STATUS` when it has ended."""
        return self.call(place, lambda: _replace(command, command[0], NOT_STARTED), stdio, tell)

    def call(
        self, place: Place, body: Callable[[], int], stdio: Sequence[int], tell: Tell, *, keep: bool = False
    ) -> int:
        """Call ``body`` in a process of its own, as :meth:`run` does a command; it can ``keep`` all open files."""
        pid = place.fork()
        if pid == 0:
            _in_child(place, stdio, body, keep=keep)
        for fd in stdio:
            os.close(fd)
        self._commands[pid] = tell
        self._places[pid] = place
        return pid

    def launch(self, worker: Launch, place: Place, body: Callable[[Launch], int]) -> int:
        """Fork one worker: ``body(worker)`` runs on the node with its output in the log; its result is the status.
        Returns its PID."""
        with logged(worker.log) as files:
            started_s = time.monotonic()
            pid = place.fork()
            if pid == 0:
                _in_child(place, files, lambda: body(worker))
        self._workers[pid] = worker, started_s
        self._places[pid] = place
        return pid

    def reap(self) -> None:
        """Reap every process that has ended, orphans included."""
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

    def stopped(self) -> list[str]:
        """Workers that were stopped by a signal."""
        self.reap()
        return [worker.process for pid, (worker, _) in self._workers.items() if is_stopped(pid)]

    def signal(self, pid: int, number: int) -> None:
        """Signal a command started by :meth:`run` and the processes it started."""
        if pid in self._commands:
            signal_group(pid, number)

    def signal_node(self, name: str, number: int) -> None:
        """Signal every worker and command of one node, and the processes they started."""
        self.reap()
        for pid, place in self._places.items():
            if place.name == name:
                signal_group(pid, number)

    def signal_worker(self, name: str, number: int) -> None:
        """Signal one worker, and the processes it started."""
        self.reap()
        for pid, (worker, _) in self._workers.items():
            if worker.process == name:
                signal_group(pid, number)

    def kill_workers(self) -> set[int]:
        """End every worker now; those that this ends are not reported as exits.

        A worker that another process traces (ptrace(2)) is not reaped before that process ends. Then all that runs in
        its enclosure is ended; the nodes on which that was so are returned.
        """
        self.reap()
        for pid in self._workers:
            signal_group(pid, signal.SIGKILL)
        deadline = time.monotonic() + KILLED_S
        while self._workers and time.monotonic() < deadline:
            self._forget_workers(os.WNOHANG)
            time.sleep(LOOK_S)
        held = {worker.node for worker, _ in self._workers.values()}
        for pid in self._workers:
            enclosure = self._places[pid].enclosure
            assert enclosure is not None  # as all workers have
            enclosure.end()
        self._forget_workers(0)
        return held

    def _forget_workers(self, options: int) -> None:
        """Reap workers that have ended, and do not tell of them."""
        for pid in list(self._workers):
            if os.waitpid(pid, options)[0]:
                del self._workers[pid], self._places[pid]

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
            worker, started_s = self._workers.pop(pid)
            self._exits.append(Exit(worker.process, worker.node, status, started_s, time.monotonic()))
        elif pid in self._commands:
            self._commands.pop(pid)(STATUS.pack(status, time.monotonic()))


@contextmanager
def logged(log: str) -> Iterator[Files]:
    """Open files for a program that has no input and whose output is added to ``log``."""
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        yield null, output, output
    finally:
        os.close(null)
        os.close(output)


def child_ends() -> socket.socket:
    """Make a socket that is readable once a child of this process has ended."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    return ours


def by_stream(fd: int) -> Tell:
    """Make a function that tells the status on a stream, which is closed then."""

    def tell(said: bytes) -> None:
        with socket.socket(fileno=fd) as stream, suppress(OSError):  # nobody waits
            stream.send(said, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

    return tell


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a child that has not been reaped (its state, see proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


def run_program(launch: Launch) -> NoReturn:
    """Replace this process by a launch's program. Raises OSError, which names it, if it cannot be started."""
    assert launch.program
    words = launch.program.words
    try:
        os.chdir(launch.program.folder)
        for name in launch.program.cleared:
            os.environ.pop(name, None)
        os.environ.update(launch.program.environment)
        homes.settle(os.environ)
    except OSError as error:
        raise OSError(f"cannot start {words[0]} in {launch.program.folder}: {error.strerror}") from None
    if launch.program.cleared:
        print(f"testbed: left out of the environment: {', '.join(launch.program.cleared)}", flush=True)
    _replace(words, f"{words[0]} in {launch.program.folder}")


def _replace(words: Sequence[str], called: str, fix: str = "") -> NoReturn:
    """Replace this process by a program. Raises OSError, which says what it is ``called``, if it cannot be started."""
    try:
        os.execvp(words[0], list(words))
    except OSError as error:
        raise OSError(f"cannot start {called}: {error.strerror}{fix}") from None


def signal_group(pid: int, number: int) -> None:
    """Signal a session's processes, or the child alone while it does not lead a session yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def _in_child(place: Place, stdio: Sequence[int], body: Callable[[], int], *, keep: bool = False) -> NoReturn:
    """Run a forked child to its end: enter the node, put files in place, run ``body`` and exit with its result."""

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
    """Run a forked child to its end: run ``body`` and exit with its result; what it raises is written to standard
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


@cache
def worker_body(*, torch: bool = True) -> Callable[[Launch], int]:
    """Make the function that runs a worker from its job file and returns its exit status; the first call imports.

    Workers are forked from this process, once it has imported what they need and used it a little. Importing PyTorch
    costs seconds and hundreds of megabytes; a fork costs milliseconds and shares the memory. Workers that play a
    profile back have no use for it.
    """
    for name in ONE_THREAD:  # read at import; threads do not survive a fork, and a worker is given one core's worth
        os.environ[name] = "1"
    from testbed.workloads import worker

    worker.prepare(torch=torch)
    if not torch:
        gc.freeze()  # so that a child's collector does not write to, and thereby copy, the pages shared with us
    return lambda launch: worker.main([launch.job])


def expect_jobs(workers: Sequence[Launch]) -> None:
    """Make once, before these are forked, what each of those that use PyTorch would else make for itself."""
    jobs = [Path(one.job) for one in workers if one.torch and not one.program]
    if jobs:
        worker_body()
        from testbed.workloads import worker

        worker.expect(jobs)
