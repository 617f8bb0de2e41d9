"""Memory of a node's chunks, and the adding to them: as floats in the gradient, or in fixed point.

Both have the same methods, which the engine calls as a chunk goes its way: ``take`` when its first byte arrives,
``add`` for each partial sum, ``agreed`` when the sum is here, ``leave`` when it is passed on. Their ``windows`` know
whether it may go up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync import fixed_point
from testbed.workloads.sync.connection import Act
from testbed.workloads.sync.fixed_point import Scales
from testbed.workloads.sync.forest import ABSENT, FixedPoint
from testbed.workloads.sync.plan import Plan, Windows

Floats = NDArray[np.float32]
Numbers = NDArray[Any]
"""Floats of any size, or integers."""
Queued = Callable[[Numbers], bool]
UNSENT_BYTES = 256 * 2**10
"""Limit on the bytes of a worker's integers that the kernel may hold before they are on the wire. Without a limit, the
worker that is first on a core makes integers of as many chunks as the send buffer has room for, while the links of the
workers that wait for the core are idle. At 400 Mbit/s this made GST of SwitchML 1.047 of its bound. With the limit it
is 1.033."""


class FloatSums:
    """Sums in the gradient itself, or in a buffer of its size on a node without one.

    Attributes:
        windows: which chunks wait for others.
        tally: memory of the tally's chunk, an array of one; of none where there is no tally.
        turn: by chunk, what is to be done with it when its turn to be sent has come.
        dtype: of what travels: float32, or that of the ``gradient``.
    """

    def __init__(
        self,
        plan: Plan,
        window: int,
        total_floats: int,
        gradient: Numbers | None,
        *,
        each_bucket: bool = False,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Set up; with ``each_bucket`` the window counts the chunks of each bucket, rather than of all, for
        themselves."""
        self._plan = plan
        self.dtype: DTypeLike = dtype if gradient is None else gradient.dtype
        self._own = gradient is not None
        counted = list(zip(plan.klass, plan.bucket, strict=True)) if each_bucket else plan.klass
        self.windows = Windows(counted[: plan.data], window if self._own else 0)
        self._flat = np.zeros(total_floats, dtype) if gradient is None else gradient
        self.tally = np.zeros(0 if plan.tally is None else 1, self.dtype)
        self.turn: list[Act | None] = [None] * len(plan.first)

    @property
    def parts(self) -> list[Numbers]:
        """The memory of each chunk; made anew each time, for a script's call has no use for most of them."""
        spans = zip(self._plan.first, self._plan.last, strict=True)
        found = [self._flat[first:last] for first, last in spans]
        if self._plan.tally is not None:
            found[self._plan.tally] = self.tally
        return found

    def open(self, gate: int) -> None:
        """Let the gate's chunks be added to."""
        for k in self._plan.members[gate] if not self._own else ():
            if k == self._plan.tally:
                self.tally[:] = 0
            else:
                self._flat[self._plan.first[k] : self._plan.last[k]] = 0

    def take(self, k: int, queued: Queued) -> bool:
        """Whether there is room for chunk k now; ``queued`` says whether something of an array is still to be sent."""
        del k, queued
        return True

    def add(self, k: int, at: int, terms: Numbers) -> None:
        """Add ``terms`` to chunk k from its float ``at`` on."""
        if k == self._plan.tally:
            ours = self.tally
        else:
            at += self._plan.first[k]
            ours = self._flat[at : at + len(terms)]
        np.add(ours, terms, out=ours)

    def agreed(self, k: int) -> int | None:
        """Return the gate that opens because the sum of chunk k is here, if one does."""
        del k
        return None

    def leave(self, k: int) -> None:
        """Note that chunk k has been passed on for the last time."""

    def finish(self) -> bool:
        """End an iteration: all sums are here, and all has left. Make them floats; return whether they were not."""
        return False


class Slots:
    """The bounded memory of a node that adds without a gradient of its own: slots that chunks take in turn.
    ``parts[k]`` is the memory of chunk k, which it shares with others of its class.

    Each class has W of a switch's slots, the forest's window, and its n-th chunk takes slot n mod W. That a slot is
    free in time is the workers' doing: one sends chunk n of a class once it has the sum of chunk n - W
    (:class:`.plan.Windows`), as in SwitchML, whose packets clock themselves this way. The sum comes back through the
    switch that the chunk was sent to (:mod:`testbed.workloads.sync.verify` makes sure of it), so the old chunk has done
    all it had to do there when the new one arrives, but for bytes that still queue towards a slower neighbour; until
    these have left, the new chunk waits in its connection. That neighbour reads whatever the switch sends, so the wait
    ends; classes do not wait for each other.

    Source: Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation", NSDI 2021 (pool of slots,
    self-clocking).

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
        self.parts: list[NDArray[np.int32]] = [
            memory[c][slot][:size] if mine[c] else nothing for (c, slot), size in zip(self._slot, length, strict=True)
        ]
        self._holder: dict[tuple[int, int], int] = {}
        self._left: dict[tuple[int, int], int] = {}

    def take(self, k: int, queued: Queued) -> bool:
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


class FixedSums:
    """Sums as int32: in the gradient's own memory, or on a node without one in slots.

    A worker's chunk becomes integers when its turn to be sent has come, or something is to be added to it, and floats
    again as soon as nobody waits for it here. So neither holds up the others: links do not wait until a whole gradient
    is made integers. Attributes as those of :class:`FloatSums`.
    """

    dtype: DTypeLike = np.int32

    def __init__(
        self, plan: Plan, window: int, fixed: FixedPoint, world: int, name: str, gradient: Floats | None
    ) -> None:
        self._plan = plan
        self._name = name
        self._own = gradient is not None
        klass, spans = plan.klass[: plan.data], list(zip(plan.first, plan.last, strict=True))
        self.windows = Windows(klass, window if self._own else 0)
        if gradient is None:
            mine = [parent != ABSENT or receives for parent, receives in zip(plan.parent, plan.receives, strict=True)]
            self._slots = Slots(klass, [last - first for first, last in spans[: plan.data]], window, mine)
            self.parts: list[Numbers] = list(self._slots.parts)
        else:
            self.parts = [gradient.view(np.int32)[first:last] for first, last in spans[: plan.data]]
        self._scales = Scales(fixed, world, self.parts[:], name)
        self._encoded: set[int] = set()
        exponents = np.empty(plan.data, np.int32)
        self.parts += [exponents[first:last] for first, last in spans[plan.data :]]
        self.turn: list[Act | None] = [None] * len(self.parts)
        if self._own:
            self.turn[: plan.data] = [partial(self._encode, k) for k in range(plan.data)]

    def open(self, gate: int) -> None:
        for k in self._plan.members[gate] if gate != self._plan.buckets else ():
            if k >= self._plan.data:
                self.parts[k][:] = fixed_point.LOWEST
                if self._own:
                    self._scales.propose(self._plan.scaled[k - self._plan.data], into=self.parts[k])

    def take(self, k: int, queued: Queued) -> bool:
        if k >= self._plan.data:
            return True
        if not self._own:
            return self._slots.take(k, queued)
        self._encode(k)
        return True

    def add(self, k: int, at: int, terms: Numbers) -> None:
        """
        Raises:
            WorkerError: a sum does not fit 32 bits.
        """
        if k >= self._plan.data:
            ours = self.parts[k][at : at + len(terms)]
            np.maximum(ours, terms, out=ours)
            return
        try:
            self._scales.add(k, at, terms)
        except OverflowError:
            raise WorkerError(
                f"{self._name}: a sum in chunk {k} of class {self._plan.klass[k]} does not fit 32 bits",
                fix="give the scheme a smaller scale",
            ) from None

    def agreed(self, k: int) -> int | None:
        about = k - self._plan.data
        if not 0 <= about < len(self._plan.scaled):
            return None
        self._scales.agree(self._plan.scaled[about], self.parts[k])
        return self._plan.buckets + 1 + about

    def leave(self, k: int) -> None:
        if k >= self._plan.data:
            return
        if not self._own:
            self._slots.leave(k)
        elif not self._plan.forward[self._plan.klass[k]]:
            self._decode(k)

    def finish(self) -> bool:
        left = list(self._encoded)
        for k in left:
            self._decode(k)
        return bool(left)

    def _encode(self, k: int) -> None:
        if k not in self._encoded:
            self._encoded.add(k)
            self._scales.encode(k)

    def _decode(self, k: int) -> None:
        self._encoded.discard(k)
        self._scales.decode(k)


Sums = FloatSums | FixedSums
