"""The sandbox's process, seen from the caller's: start it, have it do things, end it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from testbed.base.errors import LabError
from testbed.base.python import module_command, search_path
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface.kernel import SIGNALLED
from testbed.lab.requests import Call

_T = TypeVar("_T")
LAUNCHER = "testbed.lab.netns.launcher"
STOP_TIMEOUT_S = 10.0
"""Seconds that the sandbox may take to end. A lab of 64 workers is gone in a second."""
ANSWER_TIMEOUT_S = 30.0
"""Seconds that an answer may take which should take milliseconds: without one for so long, somebody has stopped the
lab's process."""
WORK_TIMEOUT_S = 60.0
"""Seconds that an answer may take to a request that takes seconds: importing PyTorch, building a thousand hosts, ending
their processes."""
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Setting of the environment that puts large blocks into huge pages (where the system's setting is madvise): gradients
are allocated anew in each iteration, and page faults were a third to half of a LeNet-5 worker's computing time."""


class SandboxProcess:
    """A sandbox (:class:`testbed.lab.netns.sandbox.Sandbox`), which may be asked from several threads.

    Raises:
        PrivilegeError: the kernel does not let this user make namespaces.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        self._process = _start(theirs)
        theirs.close()
        self._channel = Channel(ours)
        self._receive(WORK_TIMEOUT_S)
        self._ending = os.pidfd_open(self._process.pid)

    @property
    def launcher_pid(self) -> int:
        """PID of the process above the sandbox."""
        return self._process.pid

    def fileno(self) -> int:
        """File descriptor for select(): readable when the sandbox has ended."""
        return self._ending

    def close(self) -> None:
        """End the sandbox, and everything in it."""
        self._channel.close()
        if self._ending < 0:
            return
        if not select.select([self], [], [], STOP_TIMEOUT_S)[0]:
            self._process.kill()
        self._process.wait()
        os.close(self._ending)
        self._ending = -1

    def ask(self, call: Call[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> _T:
        """Have the sandbox do something and return its result. Raises what the sandbox raised."""
        with self._lock:
            with self._named_end(timeout_s):
                self._channel.send((call.name, call.arguments), call.files, timeout_s)
            return cast(_T, self._receive(timeout_s))

    def _receive(self, timeout_s: float) -> Any:
        with self._named_end(timeout_s):
            answer, _ = self._channel.receive(timeout_s)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextmanager
    def _named_end(self, timeout_s: float) -> Iterator[None]:
        """Raises LabError: the lab's process has ended, or has done nothing for ``timeout_s``, and is ended then."""
        try:
            yield
        except ChannelClosedError:
            raise self._ended() from None
        except TimeoutError:
            self._channel.close()  # an answer that comes later must not be taken for another's
            self._process.kill()  # and with it everything in the lab
            raise LabError(
                f"the lab's process did not answer for {timeout_s:g} s, and was ended",
                fix="see whether somebody stopped it, or memory ran out; then run again with --resume",
            ) from None

    def _ended(self) -> LabError:
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # somebody has stopped the launcher
            self._process.kill()
            status = self._process.wait()
        number = -status if status < 0 else status - SIGNALLED
        how = signal.Signals(number).name if number > 0 else f"exit status {status}"
        return LabError(
            f"the lab's process ended ({how}), and everything in the lab with it", fix="start the lab again"
        )


def _start(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start the launcher in a session of its own, so that Ctrl-C at a terminal reaches only the caller."""
    return subprocess.Popen(
        module_command(LAUNCHER, str(channel.fileno()), str(os.getpid())),
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**HUGE_PAGES, **os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
    )
