"""What one directed link does to the packets that it carries: when each of them is due at the far end, if at all."""

from __future__ import annotations

import random

from testbed.lab.base import Impairment

LOST, AHEAD = -1, -2
"""In place of a time: never, and at once, ahead of those that wait."""


class Lane:
    """Packets in the order in which they leave the shaper; the same seed makes the same decisions about them.

    Order is kept: a packet with little jitter waits for the one before it, as it would in a cable. Only those that
    ``reorder`` chooses go ahead, and wait for nobody (netem's rule, too).
    """

    def __init__(self, seed: int, impairment: Impairment) -> None:
        self._draw = random.Random(seed)
        self._last_ns = 0
        self.impairment = impairment

    @property
    def impairment(self) -> Impairment:
        """What is asked of the link; may be set at any time, and holds for the packets that come from then on."""
        return self._impairment

    @impairment.setter
    def impairment(self, wanted: Impairment) -> None:
        self._impairment = wanted
        self._delay_ns, self._jitter_ns = round(wanted.delay_s * 1e9), wanted.jitter_s * 1e9
        self._loss, self._reorder = wanted.loss, wanted.reorder

    def due_ns(self, arrived_ns: int) -> int:
        """When a packet is due that has arrived at ``arrived_ns``, or :data:`LOST`, or :data:`AHEAD`."""
        if self._loss and self._draw.random() < self._loss:
            return LOST
        if self._reorder and self._draw.random() < self._reorder:
            return AHEAD
        due_ns = arrived_ns + self._delay_ns
        if self._jitter_ns:
            due_ns = max(arrived_ns, due_ns + int(self._draw.gauss(0.0, self._jitter_ns)))
        self._last_ns = max(due_ns, self._last_ns)
        return self._last_ns
