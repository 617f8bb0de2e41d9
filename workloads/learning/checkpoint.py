"""Checkpoints: weights that are written while a training waits (MLfabric, section 7.3).

A process that writes does nothing else. It writes no faster than it is told, so that a fast disk takes the time of one
that is given. Weights alone are written, as by the paper's checkpoints of a model of 100 MB, but for a process that may
be started again from them: it adds what it needs for that.

Where all workers write (the paper: "all workers only write part of their model to disk and replicate it 3-way"), each
of N writes spread / N of the floats, from its rank's N-th on and around the end. So each float is written by ``spread``
workers.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import WorkerError

if TYPE_CHECKING:  # a container's image need not have NumPy to read a job
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
_PIECE_BYTES = 2**18
"""Bytes that are written at once: at 180 MB/s every 1.5 ms, as often as a process is woken without trouble."""
MOST_MORE_BYTES = 2**28
"""Limit on the bytes of a checkpoint besides its arrays."""
_LONGEST_WAIT_S = 0.005
"""Longest time (s) until a process that waits before its next piece does something else: at a scaled rate, a piece may
take a second."""


@dataclass(frozen=True)
class Checkpoint:
    """Settings of the checkpoints that a process writes.

    Attributes:
        every: after so many iterations, or, of a server, updates.
        bytes_per_s: how fast, at most.
        path: the file; the last checkpoint stays there.
        total: after so many the training is over, and nothing is written.
        share: (numerator, denominator) of the floats, and at which of as many parts as the denominator it begins; None
            for all that the process has.
        resumes: whether a process may be started again from it, so that it needs more than weights.
    """

    every: int
    bytes_per_s: float
    path: str
    total: int
    share: tuple[int, int, int] | None = None
    resumes: bool = False


def part(floats: int, share: tuple[int, int, int] | None) -> list[tuple[int, int]]:
    """Return the spans of a share of so many floats; two where it goes on from the beginning."""
    if share is None:
        return [(0, floats)]
    count, of, first = share
    if count >= of:
        return [(0, floats)]
    start, stop = floats * first // of, floats * (first + count) // of
    return [(start, stop)] if stop <= floats else [(start, floats), (0, stop - floats)]


class Keeper:
    """Writer of the checkpoints of one process: how many there are, their size and the time that they took, in all."""

    def __init__(
        self,
        asked: Checkpoint | None,
        weights: Callable[[], Floats],
        more: Callable[[], bytes] = bytes,
        done: int = 0,
    ) -> None:
        """Set up; ``weights`` are looked at when they are written, and so is the data that is needed besides to go on
        from there, ``more``. So many iterations or updates were ``done`` before."""
        self._asked, self._weights, self._more = asked, weights, more
        self._done, self.count, self.bytes = done, 0, 0
        self.took_s = 0.0

    def after(self, done: int, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Write a checkpoint if one is due now that so many iterations or updates are done; return whether it was.
        Of several updates that are done at once, one at which it was time is enough. ``meanwhile`` is called before
        anything is written, and again and again until all is."""
        asked = self._asked
        before, self._done = self._done, done
        if asked is None or done // asked.every == before // asked.every or done >= asked.total:
            return False
        begun_s = time.monotonic()
        meanwhile()
        weights, path = self._weights(), Path(asked.path)
        sent = 0
        wholes = [weights[start:stop].data.cast("B") for start, stop in part(len(weights), asked.share)]
        with path.with_suffix(".part").open("wb") as file:
            for whole in (*wholes, memoryview(self._more())):
                for first in range(0, len(whole), _PIECE_BYTES):
                    sent += file.write(whole[first : first + _PIECE_BYTES])
                    _wait(begun_s + sent / asked.bytes_per_s, meanwhile)
        path.with_suffix(".part").replace(path)  # whoever looks finds a whole one
        self.count, self.bytes = self.count + 1, self.bytes + sent
        self.took_s += time.monotonic() - begun_s
        return True

    def said(self) -> dict[str, Any]:
        """Report them for the process's last line."""
        if self._asked is None:
            return {}
        return {"checkpoints": self.count, "checkpoint_bytes": self.bytes, "checkpoint_s": self.took_s}


def _wait(until_s: float, meanwhile: Callable[[], None]) -> None:
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, _LONGEST_WAIT_S))
        meanwhile()


def read(path: Path, floats: int, arrays: int) -> tuple[list[Floats], bytes]:
    """Read so many arrays of so many floats from a checkpoint, and what comes after them.

    Raises:
        WorkerError: it is no plain file, or has another size than such a checkpoint can have.
    """
    import numpy as np

    least = 4 * floats * arrays
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not least <= found.st_size <= least + MOST_MORE_BYTES:
                raise OSError(f"it has {found.st_size:,} bytes, and {least:,} are its weights")
            whole = file.read(least)
            more = file.read(MOST_MORE_BYTES)
    except OSError as error:
        raise WorkerError(
            f"cannot go on from the checkpoint {path.name}: {error}",
            fix="let it write its first checkpoint before it is lost, and let nothing else write there",
        ) from error
    if len(whole) < least:
        raise WorkerError(f"the checkpoint {path.name} was cut short", fix="let nothing else write there")
    return [one.copy() for one in np.split(np.frombuffer(whole, np.float32), arrays)], more
