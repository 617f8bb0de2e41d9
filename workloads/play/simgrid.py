"""A network as SimGrid plays it: the judge of :mod:`.fluid` in tests and benchmarks, and far slower.

SimGrid's binding comes with Debian's Python alone, so it runs in a process of that (``simgrid_process.py``). Each
advance is a line of JSON there, with all that was asked for before, and a line back.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MissingToolError, TrialError
from testbed.topologies.model import Topology

PYTHON = "/usr/bin/python3"
PROCESS = Path(__file__).with_name("simgrid_process.py")
FIX = "sudo apt-get install python3-simgrid, on Debian or Ubuntu"


class SimGrid:
    """A network of directed links (:class:`.player.Network`), at simulated time 0 and idle. It blocks no links.

    Raises:
        MissingToolError: this machine has no SimGrid for its own Python.
        TrialError: (:meth:`advance`) SimGrid has ended.
    """

    def __init__(self, rate_bps: NDArray[np.float64]) -> None:
        self._said = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  # it stays open as long as the process runs
        command = [PYTHON, "-P", str(PROCESS)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
            )
        except FileNotFoundError as error:
            raise MissingToolError(f"there is no {PYTHON}, for which SimGrid is made", fix=FIX) from error
        self._asked: list[tuple[object, ...]] = []
        self._paths: list[list[int]] = []
        self._sent_bits: list[deque[float]] = []
        self._carried_bits = np.zeros(len(rate_bps))
        self._busy, self._now_s = 0, 0.0
        if self._told(rate_bps.tolist()) is None:
            raise MissingToolError(f"SimGrid is not installed for {PYTHON}: {self._complaint()}", fix=FIX)

    @classmethod
    def over(cls, topology: Topology) -> SimGrid:
        """Set up the links of a topology."""
        return cls(np.array(topology.rates_bps))

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self._process.communicate()  # its input ends, and so does it
            self._said.close()

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._now_s

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has ended."""
        return not self._busy

    def connect(self, path: Sequence[int]) -> int:
        """Return the number of a new connection along directed links; numbers ascend from 0."""
        self._paths.append(list(path))
        self._sent_bits.append(deque())
        self._asked.append(("connect", self._paths[-1]))
        return len(self._paths) - 1

    def send(self, connection: int, count_bytes: float) -> None:
        """Let a connection send a message after those that it has."""
        self._sent_bits[connection].append(8 * count_bytes)
        self._asked.append(("send", connection, 8 * count_bytes))
        self._busy += 1

    def set_rate(self, link: int, rate_bps: float) -> None:
        """Change the rate of a directed link from now on."""
        if rate_bps <= 0:
            raise ValueError(f"link {link}: SimGrid blocks no links")
        self._asked.append(("set_rate", link, rate_bps))

    def advance(self, until_s: float = math.inf) -> list[int]:
        """Go on until messages end, at ``until_s`` at the latest. Return the connections whose messages have ended,
        ascending."""
        if not self._busy and math.isinf(until_s):
            return []
        told = self._told([None if math.isinf(until_s) else until_s, self._asked])
        if told is None:
            raise TrialError(f"SimGrid has ended: {self._complaint()}")
        self._asked.clear()
        self._now_s, ended = told
        for connection in ended:
            self._carried_bits[self._paths[connection]] += self._sent_bits[connection].popleft()
        self._busy -= len(ended)
        return ended

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, by directed link: float64[L]."""
        return self._carried_bits / 8

    def _told(self, asked: object) -> tuple[float, list[int]] | None:
        """Ask the process; None if it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        now_s, ended = json.loads(self._process.stdout.readline() or "[null, null]")
        return None if ended is None else (now_s, ended)

    def _complaint(self) -> str:
        self._process.wait()
        self._said.seek(0)
        return (self._said.read().splitlines() or ["it said nothing"])[-1]
