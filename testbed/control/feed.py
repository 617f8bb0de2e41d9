"""Feed of a trial while it runs: what its processes say in their files, and which of them have ended.

Every file is read once, whoever looks, and from whichever thread. Moments of a trial are those of the first worker that
runs: the file of that one is read at every look. The other files are read when somebody asks for all lines: a look at a
file costs 4 us, and a large trial has a thousand.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from testbed.base.errors import TrialError
from testbed.files.following import MOST_PIECES, Lines
from testbed.files.shape import is_number
from testbed.lab.programs import Exit

LOOK_S = 0.003
"""Seconds that a controller waits between looks while it waits for a line."""
MOST_BYTES = 2**26
"""The most bytes of a file of which nobody says how large it may be."""


class Line(NamedTuple):
    """A line of a process's file: an object with a ``kind``. Nothing else in it has been checked."""

    process: str
    said: Mapping[str, Any]


class Feed:
    """Messages of a trial's processes, and which of them have ended.

    Attributes:
        running: the processes that have not ended, in their order.
        postponed: those that have not been started yet.
        exits: of processes that have ended, in that order.
        exited_s: by process that has ended, when it did (``time.monotonic``).
        failed: exits of processes that did not end well, and that no controller has forgiven.
        begun_s: when the trial began (``time.monotonic``); None while that is not known.
    """

    def __init__(
        self,
        samples: Mapping[str, Path | None],
        most_bytes: int = MOST_BYTES,
        processes: Sequence[str] | None = None,
    ) -> None:
        """Prepare to read files. ``samples`` is each process's file, by its name: workers by rank, then the others;
        None for a process that writes none. Of each file the first ``most_bytes`` are read. ``processes`` are those
        that run, where they have parts in several jobs, and write a file for each."""
        self.running: Sequence[str] = list(samples) if processes is None else processes
        self.postponed: Sequence[str] = []
        self.exits: Sequence[Exit] = []
        self.exited_s: dict[str, float] = {}
        self.failed: Sequence[Exit] = []
        self.begun_s: float | None = None
        self._files = {process: Lines(path, most_bytes) for process, path in samples.items() if path is not None}
        self._said: list[Line] = []
        self._done: Counter[str] = Counter()
        self._ended_s: dict[int, float] = {}
        self._silent: set[str] = set()
        self._followed: str | None = None
        self._error: TrialError | None = None
        self._lock = threading.RLock()

    # What processes say.

    @property
    def first(self) -> str | None:
        """Find the first process that runs and was not killed; None if there is none."""
        return next((process for process in self.running if process not in self._silent), None)

    def look(self) -> None:
        """Read what the first process has written since."""
        with self._lock:
            first = self.first
            if first is not None and first != self._followed:
                self._followed = first
                for line in self._said:
                    self._follow(line)
            if first is not None:
                self._read(first)

    def ended_s(self, iteration: int) -> float | None:
        """Moment when an iteration had ended and its worker had rested, as far as :meth:`look` knows; where the worker
        took it over from another, when its next one did."""
        with self._lock:
            return min((end_s for i, end_s in self._ended_s.items() if i >= iteration), default=None)

    def done(self, process: str) -> int:
        """Number of iterations that a process has done by now."""
        with self._lock:
            self._read(process, MOST_PIECES)
            return self._done[process]

    def lines(self, since: int) -> Sequence[Line]:
        """List all lines of all processes in the order in which they were read, but for the first ``since``."""
        with self._lock:
            for process in self._files:
                self._read(process)
            return self._said[since:]

    def begin(self) -> None:
        """Note that the trial begins now: for processes that do not say so."""
        self.begun_s = time.monotonic()

    def forget(self, processes: Collection[str]) -> None:
        """Note that these processes were killed, and write nothing any more."""
        with self._lock:
            self._silent |= set(processes)

    def _read(self, process: str, pieces: int = 1) -> None:
        if process not in self._files:
            return
        for said in self._files[process].said(pieces):
            line = Line(process, said)
            self._said.append(line)
            self._done[process] += said["kind"] == "iteration"
            self._follow(line)

    def _follow(self, line: Line) -> None:
        process, said = line
        if process != self._followed:
            return
        if said["kind"] == "begin" and self.begun_s is None and is_number(said.get("time")):
            self.begun_s = said["time"]
        elif said["kind"] == "iteration" and is_number(said.get("i")) and is_number(said.get("end")):
            rested_s = said.get("rested_s")
            self._ended_s.setdefault(said["i"], said["end"] + (rested_s if is_number(rested_s) else 0.0))

    # What the thread knows that waits for them.

    def note(self, exits: Sequence[Exit]) -> None:
        """Note that processes have ended.

        Raises:
            TrialError: as :meth:`check`.
        """
        self.check()
        ended = {exit.process for exit in exits}
        with self._lock:
            if self.first in ended:
                self.look()  # its last lines count
            self.running = [process for process in self.running if process not in ended]
            self.exits = [*self.exits, *exits]
            self.exited_s |= {exit.process: exit.ended_s for exit in exits}
            self.failed = [*self.failed, *(exit for exit in exits if exit.status != 0)]

    def postpone(self, processes: Collection[str]) -> None:
        """Note that these processes are started later."""
        self.postponed = [*self.postponed, *processes]
        self.running = [process for process in self.running if process not in processes]

    def started(self, processes: Collection[str]) -> None:
        """Note that these processes were postponed, and run now."""
        self.postponed = [process for process in self.postponed if process not in processes]
        self.running = [*self.running, *processes]

    def never(self, processes: Collection[str]) -> None:
        """Note that these processes were postponed, and will not be started."""
        self.postponed = [process for process in self.postponed if process not in processes]

    def runs_again(self, process: str) -> None:
        """Note that a process that has ended was started again, and goes on writing to its file."""
        self.running = [*self.running, process]

    def forgive(self, exits: Collection[Exit]) -> None:
        """Note that the trial goes on without these processes."""
        self.failed = [exit for exit in self.failed if exit not in exits]

    def fail(self, error: TrialError) -> None:
        """Note that a controller has failed: the waiting thread raises this."""
        self._error = error

    def check(self) -> None:
        """
        Raises:
            TrialError: a controller beside the waiting thread has failed.
        """
        if self._error is not None:
            raise self._error
