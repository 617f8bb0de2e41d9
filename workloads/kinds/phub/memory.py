"""Memory of a core for its keys: their sums, and all that a step changes. Cores may have it together.

With affinity to workers (PHub thesis, section 6.1.5), keys of a worker come in at one NIC. Cores of all NICs then add
to a key's sum in turn, under a lock of the key, and the one that adds the last gradient takes the step.
"""

from __future__ import annotations

import fcntl
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from testbed.workloads.kinds.phub.plan import FLOAT_BYTES
from testbed.workloads.serving import near
from testbed.workloads.serving.exchange import Floats

_ARRAYS = 3
"""Arrays as long as the keys: sums, weights, and a velocity."""
_COUNT_BYTES = 8


class Memory:
    """Sums of keys, and room for what steps change. Cores that call :meth:`room` in one order share its arrays.

    Attributes:
        sums: by key.
        descriptor: of the memory, where it is shared; None where it is this process's own.
    """

    def __init__(self, floats: Mapping[int, int], parts: Mapping[int, int], descriptor: int | None = None) -> None:
        """Set up for keys of so many floats; ``parts`` says by key how many arrays are added to its sum."""
        self._parts, self.descriptor, self._at = parts, descriptor, 0
        self._numbers = {key: number for number, key in enumerate(floats)}
        whole = mmap.mmap(-1 if descriptor is None else descriptor, size(floats))
        self._counts = np.frombuffer(whole, np.int64, len(floats))
        self._floats: Floats = np.frombuffer(whole, np.float32, offset=_COUNT_BYTES * len(floats))
        self.sums = {key: self.room(count) for key, count in floats.items()}

    def room(self, floats: int) -> Floats:
        """Return an array of so many zeros."""
        self._at += floats
        return self._floats[self._at - floats : self._at]

    def add(self, key: int, gradient: Floats) -> bool:
        """Add a worker's gradient, or a rack's sum, to a key's sum; return whether it was the last one."""
        total, number = self.sums[key], self._numbers[key]
        with self._alone(number):
            if self._counts[number]:
                np.add(total, gradient, out=total)
            else:
                np.copyto(total, gradient)
            self._counts[number] = (self._counts[number] + 1) % self._parts[key]
            return not self._counts[number]

    @contextmanager
    def _alone(self, number: int) -> Iterator[None]:
        """Have a key for this process alone."""
        if self.descriptor is None:
            yield
            return
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX, 1, number)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, number)


def size(floats: Mapping[int, int]) -> int:
    """Count the bytes of the memory for keys of so many floats."""
    return _COUNT_BYTES * (1 + len(floats)) + _ARRAYS * FLOAT_BYTES * sum(floats.values())


def shared(floats: Mapping[int, int]) -> int:
    """Make memory for keys of so many floats, to be shared, and return its descriptor."""
    return near.memory("phub", size(floats))
