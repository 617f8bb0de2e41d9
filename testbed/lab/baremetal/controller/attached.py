"""Commands that ``testbed exec`` runs on a host, over SSH, on the caller's own terminal."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress


class Attached:
    """A command on a host; see :class:`testbed.lab.programs.Command`."""

    def __init__(self, ssh: Sequence[str], command: Sequence[str], files: tuple[int, int, int]) -> None:
        program, *options = ssh
        terminal = ["-tt"] if os.isatty(files[0]) else ["-T"]
        self._process = subprocess.Popen(
            [program, *terminal, "-q", *options, shlex.join(command)],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            start_new_session=True,
        )
        self._pidfd = os.pidfd_open(self._process.pid)

    def signal(self, number: int) -> object:
        """Send a signal to ssh, with which the command ends."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return None

    def fileno(self) -> int:
        """File descriptor that is readable when the command has ended."""
        return self._pidfd

    def wait(self) -> int:
        """Wait for the end; the exit status, or minus the signal that ended it."""
        status = self._process.wait()
        os.close(self._pidfd)
        return status


class Losses:
    """Event that select() can wait for: readable once any connection is lost."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()

    def lost(self) -> None:
        """Say that a connection is lost."""
        with suppress(OSError):  # nobody looks any more
            self._write.send(b"1")

    def fileno(self) -> int:
        return self._read.fileno()

    def close(self) -> None:
        """Close the event."""
        self._read.close()
        self._write.close()
