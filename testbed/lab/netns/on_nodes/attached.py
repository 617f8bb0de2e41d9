"""A command running on a node, seen from the caller: wait for it, signal it, collect what it prints."""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from testbed.base.errors import LabError
from testbed.lab.netns.on_nodes.processes import STATUS, Files
from testbed.lab.programs import Completed


class Attached:
    """A started command. ``fileno`` becomes readable when it ends, for select()."""

    def __init__(self, status: socket.socket, send_signal: Callable[[int], object]) -> None:
        self._status = status
        self.signal = send_signal
        """Function that sends a signal number to the command and the processes it started."""
        self.ended_s = 0.0
        """Moment when it ended (``time.monotonic()``), once it was waited for."""

    def fileno(self) -> int:
        """File descriptor for select()."""
        return self._status.fileno()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit status, or minus the signal that ended it. Raises LabError: the lab
        ended first, ``timeout_s`` have passed, or the end is told to be at no possible time."""
        with self._status:
            self._status.settimeout(timeout_s)
            try:
                data = self._status.recv(STATUS.size)
            except TimeoutError:
                raise LabError(f"a program did not end within {timeout_s:g} s", fix="see who stopped it") from None
        if len(data) < STATUS.size:
            raise LabError("the lab's process ended, and the command with it", fix="start the lab again")
        status, self.ended_s = STATUS.unpack(data)
        if not 0 <= self.ended_s <= time.monotonic():
            raise LabError(
                f"a program ended at {self.ended_s:g} s by the clock of its host, and it is {time.monotonic():g} s",
                fix="see what the image of its container starts",
            )
        return int(status)


def run_and_collect(start: Callable[[Files], Attached], command: Sequence[str], timeout_s: float) -> Completed:
    """Start a command with an empty input, gather its output until it ends.

    What its children print after it has ended is not waited for.

    Raises:
        LabError: it took longer than ``timeout_s``; it was killed.
    """
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    try:
        attached = start((null, out_write, err_write))
    except BaseException:
        for fd in (out_read, err_read):
            os.close(fd)
        raise
    finally:
        for fd in (null, out_write, err_write):
            os.close(fd)
    output: dict[int, bytearray] = {out_read: bytearray(), err_read: bytearray()}
    try:
        ended = _gather(attached, output, time.monotonic() + timeout_s)
        if not ended:
            attached.signal(signal.SIGKILL)
        status = attached.wait()
        _drain(output)
    finally:
        for fd in output:
            os.close(fd)
    if not ended:
        raise LabError(
            f"`{shlex.join(command)}` did not end within {timeout_s:g} s",
            fix="give it more time, or a limit of its own",
        )
    return Completed(status, *(bytes(data).decode(errors="replace") for data in output.values()))


def _gather(attached: Attached, output: dict[int, bytearray], deadline: float) -> bool:
    """Read until the command ends (True) or time is up (False)."""
    status = attached.fileno()
    open_ends = set(output)
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([status, *open_ends], [], [], left)
        for fd in open_ends.intersection(ready):
            data = os.read(fd, 65536)
            output[fd] += data
            if not data:
                open_ends.discard(fd)
        if status in ready:
            return True
    return False


def _drain(output: dict[int, bytearray]) -> None:
    """Read what is there already."""
    for fd, buffer in output.items():
        os.set_blocking(fd, False)
        with suppress(BlockingIOError):  # a child of the command still holds the other end
            while data := os.read(fd, 65536):
                buffer += data
