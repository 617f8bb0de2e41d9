"""Agenda of a server: the next step is the first ready one, as in :mod:`testbed.workloads.parallel.prediction`.

A message of the next iteration may arrive before this one is over; one of the iteration after that cannot. Its sender
has computed with the weights that this server's answer to the message before led to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from testbed.workloads.kinds.hybrid.program.cut import Step


class Agenda:
    """The steps of one server, again in each iteration.

    The order does not change what is computed, but how long others wait.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._needed_by = {message.number: at for at, step in enumerate(steps) for message in step.needs}
        self._remote = {message.number for step in steps for message in step.needs if not message.is_local}
        self._backward = {step.place: at for at, step in enumerate(steps) if step.phase == "backward"}
        self._there = set(self._needed_by)
        """Messages of this iteration. Before the first one, all that arrives is for the next."""
        self._early: list[int] = []
        self._missing: list[int] = []
        self._ready: deque[tuple[Step, float]] = deque()
        self._left = 0

    @property
    def is_over(self) -> bool:
        """Whether all steps of this iteration are done."""
        return not self._left

    @property
    def expects(self) -> bool:
        """Whether messages of this iteration are still to come from other servers."""
        return not self._remote <= self._there

    def begin(self, now_s: float) -> None:
        """Begin the next iteration; the last one :attr:`is_over`."""
        self._left = len(self._steps)
        self._missing = [len(step.needs) for step in self._steps]
        for at, step in enumerate(self._steps):
            if step.ends and step.phase == "backward":
                self._missing[at] += 1  # its forward pass
            elif not step.needs:
                self._ready.append((step, now_s))
        early, self._early = self._early, []
        self._there.clear()
        for number in early:
            self.arrived(number, now_s)

    def arrived(self, number: int, now_s: float) -> None:
        """Note that a message has come."""
        if number in self._there:
            self._early.append(number)
            return
        self._there.add(number)
        self._less(self._needed_by[number], now_s)

    def next(self) -> tuple[Step, float] | None:
        """Return the step to take now, and when all that it needs was there; None if messages are missing, or all is
        done."""
        return self._ready.popleft() if self._ready else None

    def done(self, step: Step, now_s: float) -> None:
        """Note that a step that :meth:`next` gave is done, and its local messages are there."""
        self._left -= 1
        if step.ends and step.phase == "forward":
            self._less(self._backward[step.place], now_s)
        for message in step.gives:
            if message.is_local:
                self.arrived(message.number, now_s)

    def _less(self, at: int, now_s: float) -> None:
        """Note that a step lacks one thing less."""
        self._missing[at] -= 1
        if not self._missing[at]:
            self._ready.append((self._steps[at], now_s))
