"""Lane of one directed link: when each packet that it carries is due at the far end, if at all."""

from __future__ import annotations

import math
import random

from testbed.lab.base import Impairment

LOST, AHEAD, CUT = -1, -2, -3
"""Decisions in place of a time: never; at once, ahead of those that wait; and not before it is cut, for some of it is
chosen."""

NEVER = 1e15
"""Number of packets that is more than any link carries."""


class Chance:
    """Chance that chooses a share of packets, each by itself, by drawing how many pass until the next one that is
    chosen: a large packet of which none is chosen costs no more than a small one."""

    def __init__(self, seed: str) -> None:
        self._draw, self._share = random.Random(seed), 0.0
        self.left = math.inf
        """Number of packets that pass before the next one that is chosen."""

    def set(self, share: float) -> None:
        """Choose this share from now on."""
        self._share = share
        self.left = self._gap()

    def chooses(self) -> bool:
        """Whether the next packet is chosen."""
        if self.left:
            self.left -= 1
            return False
        self.left = self._gap()
        return True

    def _gap(self) -> float:
        if self._share in (0, 1):
            return 0 if self._share else math.inf
        return math.floor(min(NEVER, math.log(1 - self._draw.random()) / math.log1p(-self._share)))


class Lane:
    """Lane of packets in the order in which they leave the shaper; the same seed makes the same decisions about them.

    Order is kept: a packet with little jitter waits for the one before it, as it would in a cable. Only those that
    ``reorder`` chooses go ahead, and wait for nobody (netem's rule, too).
    """

    def __init__(self, seed: int, impairment: Impairment) -> None:
        self._draw = random.Random(seed)
        self._loss, self._reorder = Chance(f"{seed} loss"), Chance(f"{seed} reorder")
        self._last_ns = 0
        self.impairment = impairment

    @property
    def impairment(self) -> Impairment:
        """Impairment that is asked of the link; may be set at any time, and holds for the packets that come from then
        on."""
        return self._impairment

    @impairment.setter
    def impairment(self, wanted: Impairment) -> None:
        self._impairment = wanted
        self.delay_ns, self._jitter_ns = round(wanted.delay_s * 1e9), wanted.jitter_s * 1e9
        self._loss.set(wanted.loss)
        self._reorder.set(wanted.reorder)

    @property
    def has_chance(self) -> bool:
        """Whether chance has a say; without it, each packet is late by ``delay_ns`` alone, and never cut."""
        return bool(self._jitter_ns) or self._impairment.every_packet

    def due_ns(self, arrived_ns: int, packets: int = 1) -> int:
        """Decide when a packet is due that has arrived at ``arrived_ns``, or :data:`LOST`, or :data:`AHEAD`.

        A large one, of as many ``packets`` of the wire, is due as a whole if none of them is chosen to be lost or to go
        ahead. If one is, it is :data:`CUT`, and nothing is decided before its packets come one by one.
        """
        if min(self._loss.left, self._reorder.left) >= packets:
            self._loss.left -= packets
            self._reorder.left -= packets
        elif packets > 1:
            return CUT
        elif self._loss.chooses():
            return LOST
        elif self._reorder.chooses():
            return AHEAD
        due_ns = arrived_ns + self.delay_ns
        if self._jitter_ns:
            due_ns = max(arrived_ns, due_ns + int(self._draw.gauss(0.0, self._jitter_ns)))
        self._last_ns = max(due_ns, self._last_ns)
        return self._last_ns
