"""The bounded memory of a node that adds without a gradient of its own: slots that chunks take in turn.

Each class has W of a switch's slots, the forest's window, and its n-th chunk takes slot n mod W. That a slot is free in
time is the workers' doing: one sends chunk n of a class once it has the sum of chunk n - W (:class:`Windows`), as in
SwitchML, whose packets clock themselves this way. The sum comes back through the switch that the chunk was sent to
(:mod:`testbed.workloads.sync.verify` makes sure of it), so the old chunk has done all it had to do there when the new
one arrives, but for bytes that still queue towards a slower neighbour; until these have left, the new chunk waits in
its connection. That neighbour reads whatever the switch sends, so the wait ends; classes do not wait for each other.

Source: Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation", NSDI 2021 (pool of slots,
self-clocking).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int32]


class Slots:
    """``parts[k]`` is the memory of chunk k, which it shares with others of its class.

    Args:
        klass: of each chunk.
        length: of each chunk, in numbers.
        window: W, slots a class.
        mine: by class, whether this node takes part in it.
    """

    def __init__(self, klass: Sequence[int], length: Sequence[int], window: int, mine: Sequence[bool]) -> None:
        longest: dict[int, int] = {}
        for c, size in zip(klass, length, strict=True):
            longest[c] = max(longest.get(c, 0), size)
        memory = {c: [np.empty(size, np.int32) for _ in range(window)] for c, size in longest.items() if mine[c]}
        nothing = np.empty(0, np.int32)
        turns = {c: cycle(range(window)) for c in longest}
        self._slot = [(c, next(turns[c])) for c in klass]
        self.parts: list[Integers] = [
            memory[c][slot][:size] if mine[c] else nothing for (c, slot), size in zip(self._slot, length, strict=True)
        ]
        self._holder: dict[tuple[int, int], int] = {}
        self._left: dict[tuple[int, int], int] = {}

    def take(self, k: int, queued: Callable[[Integers], bool]) -> bool:
        """Whether chunk k has its slot; if the slot is free the chunk has it from now on, filled with zeros.

        ``queued`` says whether something of a chunk that has left its slot is still to be sent.
        """
        slot = self._slot[k]
        if self._holder.get(slot) == k:
            return True
        last = self._left.get(slot)
        if slot in self._holder or (last is not None and queued(self.parts[last])):
            return False
        self._holder[slot] = k
        self.parts[k][:] = 0
        return True

    def leave(self, k: int) -> None:
        """Note that chunk k has been passed on for the last time."""
        slot = self._slot[k]
        del self._holder[slot]
        self._left[slot] = k


class Windows:
    """Windows: the chunks that a worker may not send yet, for want of an earlier one's sum.

    Attributes:
        before: by chunk, the one whose sum it waits for.
    """

    def __init__(self, klass: Sequence[Hashable], window: int) -> None:
        """Set up; a ``window`` of 0 is no limit; ``klass`` says for each chunk with which others it is counted."""
        order: dict[Hashable, list[int]] = {}
        for k, c in enumerate(klass if window else ()):
            order.setdefault(c, []).append(k)
        pairs = [zip(ks, ks[window:], strict=False) for ks in order.values()]
        self.before = {later: k for each in pairs for k, later in each}
        self._after = {k: later for later, k in self.before.items()}
        self.begin()

    def begin(self) -> None:
        """Begin a new iteration, of which no sum has come."""
        self._summed: set[int] = set()
        self._parked: set[int] = set()

    def may_send(self, k: int) -> bool:
        """Whether chunk k may leave; if not, :meth:`summed` names it when it may."""
        if k in self.before and self.before[k] not in self._summed:
            self._parked.add(k)
            return False
        return True

    def summed(self, k: int) -> int | None:
        """Note that the sum of chunk k has come; return the chunk that waited for it, if one did."""
        self._summed.add(k)
        later = self._after.get(k)
        if later in self._parked:
            self._parked.discard(later)
            return later
        return None
