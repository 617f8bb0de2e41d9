"""One call on its way: its chunks that are still to come, and the place of its numbers.

It does for one call what :class:`testbed.workloads.sync.engine.Engine` does for one iteration, and takes a chunk the
same way: partial sums are added, a sum is passed on. Where it sends, and when it may, is the carrier's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.script.collectives.shapes import Shape
from testbed.workloads.sync.forest import ROOT
from testbed.workloads.sync.sums import FixedSums, FloatSums, Sums

Numbers = NDArray[Any]


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """Return numpy's type for a name in :data:`.calls.DTYPES`. Numpy lacks bfloat16, which the package ml_dtypes
    adds."""
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(np.uint8 if name == "other" else name)


def raw(numbers: Numbers) -> memoryview:
    """View the bytes of an array; types that numpy does not know itself have no buffer of their own."""
    return numbers.view(np.uint8).data if numbers.size else memoryview(bytearray())


SUM = 1 << 31
"""Bit of a message's word: the message carries a sum, not a partial one."""

Key = tuple[int, int]
"""Group and number of a call; the same at all processes that take part."""
Message = tuple[int, int, int]
"""Receiver, phase and chunk."""


@dataclass
class Ending:
    """Callbacks about a call, on the engine's thread: ``begun`` when its first bytes may have left; ``own`` for each
    chunk of this process's array, with the span of its numbers, while they are still its own: before they leave, or
    something is added to them or put in their place; ``came`` when its first chunk is there that another process sent;
    ``done`` when it is over, with the error if there is one."""

    done: Callable[[BaseException | None], None]
    begun: Callable[[], None] = lambda: None
    came: Callable[[], None] = lambda: None
    own: Callable[[int, int], None] | None = None


OVER = Ending(lambda _: None)
"""Callbacks of a call that is over."""


class Operation:
    """One call at one process.

    Attributes:
        key: which call it is.
        shape: its plan.
        told: neighbours that have made the call, too.
        early: neighbours that were sent something before they had.
        parked: by neighbour, the messages that wait until it has.
        turn: by chunk, what is to be done when its turn to be sent has come.
        unsent: messages that wait in connections.
        dtype: of what travels.
        is_free: whether the call is over at this process and its neighbours, so that another one may be made of it.
    """

    def __init__(self, key: Key, shape: Shape, name: str, own: Numbers | None, ending: Ending) -> None:
        """Set up; ``own`` is this process's array, in which the result will be; None at a process that only adds or
        passes on. ``name`` is its node's."""
        self.shape = shape
        plan, forest = shape.plan, shape.forest
        self._plan = plan
        self._sums: Sums
        if forest.fixed is not None:
            self._sums = FixedSums(plan, forest.window, forest.fixed, len(forest.workers), name, own)
        else:
            dtype = dtype_of(shape.call.dtype)
            self._sums = FloatSums(plan, forest.window, shape.table.total_floats, own, dtype=dtype)
        self._windows = self._sums.windows
        self.dtype: np.dtype[np.generic] = np.dtype(self._sums.dtype)
        self.views = self._views(own)
        self.turn = self._sums.turn
        if own is not None and isinstance(self._sums, FloatSums):
            self.turn[: plan.data] = [partial(self._see, k) for k in range(plan.data)]
        self.renew(key, ending)

    def renew(self, key: Key, ending: Ending) -> None:
        """Become another call of the same shape with the same array; views of its chunks are made once."""
        plan = self._plan
        self.key, self.ending = key, ending
        self.told: set[int] = set()
        self.early: set[int] = set()
        self.parked: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.unsent = 0
        self.is_free = self._has_come = False
        self._waiting = plan.children.copy()
        self._open = [False] * len(plan.members)
        self._remaining = plan.chunks[0]
        self._unseen = set(range(plan.data)) if ending.own is not None else set()

    def _see(self, k: int) -> None:
        """Show the numbers of chunk k, which are still this process's own, once."""
        if k in self._unseen and self.ending.own is not None:
            self._unseen.discard(k)
            self.ending.own(self._plan.first[k], self._plan.last[k])

    def _views(self, own: Numbers | None) -> list[memoryview]:
        """View the bytes of each chunk."""
        if own is None or isinstance(self._sums, FixedSums):
            return [raw(part) for part in self._sums.parts]
        whole, size = raw(own), self.dtype.itemsize  # a part of a view is made in a tenth of the time
        return [
            whole[size * first : size * last] for first, last in zip(self._plan.first, self._plan.last, strict=True)
        ]

    @property
    def is_summed(self) -> bool:
        """Whether all chunks have been here and are passed on, or wait to be."""
        return not self._remaining

    def has_left(self) -> None:
        """Note that one more message has left."""
        self.unsent -= 1

    def knows(self, k: int) -> bool:
        """Whether the call has such a chunk at this process."""
        return 0 <= k < self._plan.data + len(self._plan.scaled)

    def takes(self, k: int, queued: Callable[[Numbers], bool]) -> bool:
        """Whether there is room for chunk k now."""
        is_taken = self._open[self._plan.gate[k]] and self._sums.take(k, queued)
        if is_taken:
            self._see(k)
        return is_taken

    def begin(self) -> list[Message]:
        """Return the messages that can leave at once."""
        self._windows.begin()
        leaving: list[Message] = []
        self._opened(0, leaving)
        return leaving

    def add(self, k: int, at: int, terms: Numbers) -> None:
        """Add numbers to chunk k, from its number ``at`` on."""
        self._sums.add(k, at, terms)

    def came(self, k: int, phase: int) -> list[Message]:
        """Note that a message is complete; return those that can leave because of it.

        Raises:
            ValueError: it was not to come.
        """
        if not self._has_come:
            self._has_come = True
            self.ending.came()
        leaving: list[Message] = []
        if phase == SUM:
            self._summed(k, leaving)
            return leaving
        if self._waiting[k] == 0:
            raise ValueError(f"chunk {k} came too often")
        self._waiting[k] -= 1
        if self._waiting[k] == 0:
            self._reduced(k, leaving)
        return leaving

    def finish(self) -> None:
        """End the call: all has left, so the array holds the result."""
        self._sums.finish()

    def _opened(self, gate: int, leaving: list[Message]) -> None:
        self._open[gate] = True
        self._sums.open(gate)
        for k in self._plan.leaves[gate]:
            self._reduced(k, leaving)

    def _reduced(self, k: int, leaving: list[Message]) -> None:
        """Pass chunk k up, or at the root down: it holds this node's and all its children's numbers."""
        c = self._plan.klass[k]
        parent = self._plan.parent[c]
        if parent == ROOT:
            self._summed(k, leaving)
        elif self._windows.may_send(k):
            leaving.append((parent, 0, k))
            if not self._plan.receives[c]:
                self._complete(k)

    def _summed(self, k: int, leaving: list[Message]) -> None:
        for node in self._plan.forward[self._plan.klass[k]]:
            leaving.append((node, SUM, k))  # noqa: PERF401 - an iterator for one or two of them takes longer
        self._complete(k)
        if (gate := self._sums.agreed(k)) is not None:
            self._opened(gate, leaving)
        if (later := self._windows.summed(k)) is not None:
            self._reduced(later, leaving)

    def _complete(self, k: int) -> None:
        self._sums.leave(k)
        self._remaining -= 1
