"""Finetune: masters move, step by step, from the host that holds the others up (PHub thesis, section 4.2.3).

Each host has a blame, for the time that it takes and for the load that it has. Masters move from the host with the most
to the one with the least, one at first, and twice as many each time that the same host has the most again.
"""

from __future__ import annotations

import numpy as np

from testbed.workloads.locality.masters import Hosts, Masters, Pairs

BETA, GAMMA = 0.1, 0.9
"""Weights of load and of time in the blame. The thesis gives none. Equal weights would leave masters at a host with
two fifths of the others' rate: the others' larger loads are then blamed as much as its longer time."""
EPSILON = 1.05
"""Ratio of the most blame to the least up to which masters stay. The thesis gives none."""
MOST_MOVES = 8


def times_s(sent_bytes: Pairs, rate_bps: Pairs, rtt_s: Pairs) -> Hosts:
    """Compute for how long each host moves bytes in an iteration, by what was measured: its longest round trip, and all
    that it sends over all its rates."""
    found: Hosts = rtt_s.max(axis=1) + 8 * sent_bytes.sum(axis=1) / rate_bps.sum(axis=1)
    return found


def blame(sent_bytes: Hosts, took_s: Hosts, beta: float = BETA, gamma: float = GAMMA) -> Hosts:
    """Blame each host: ``beta`` times its load, scaled to 0 for the least and 1 for the most, and ``gamma`` times its
    time over the mean. Equal loads are 0."""
    spread = np.ptp(sent_bytes)
    load = (sent_bytes - sent_bytes.min()) / spread if spread else np.zeros(len(sent_bytes))
    found: Hosts = beta * load + gamma * took_s / took_s.mean()
    return found


class Finetune:
    """A sequence of steps, which knows from which host masters moved last."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._moves = 1

    def step(self, masters: Masters, blamed: Hosts) -> Masters | None:
        """Return the masters after a step; None where blame is about equal, or nobody has a master to give away."""
        if blamed.max() <= EPSILON * blamed.min():
            self._last = None
            return None
        by_blame = np.argsort(-blamed, kind="stable").tolist()
        source = next((host for host in by_blame[:-1] if can_give(masters, host)), None)
        if source is None:
            self._last = None
            return None
        self._moves = min(MOST_MOVES, 2 * self._moves) if source == self._last else 1
        self._last = source
        for _ in range(self._moves):
            masters = moved(masters, source, by_blame[::-1])
        return masters


def can_give(masters: Masters, host: int) -> bool:
    """Whether a host is the master of a class, and another host can be instead."""
    return bool(masters.globals[host] or (masters.locals[host] and len(masters.groups[masters.group(host)]) > 1))


def moved(masters: Masters, source: int, targets: list[int]) -> Masters:
    """Move one class's GM from ``source`` to the first of ``targets``, or, if it is no GM, one class's LM to the first
    of its group. Without either, nothing moves.

    A new GM becomes the LM of its group for the class, and the old GM stays the LM of its own, if that is another one.
    """
    gm, lm = masters.gm.copy(), masters.lm.copy()
    here = masters.group(source)
    if (own := np.flatnonzero(gm == source)).size:
        target = next(host for host in targets if host != source)
        gm[own[-1]] = lm[masters.group(target), own[-1]] = target
    elif (own := np.flatnonzero(lm[here] == source)).size and len(masters.groups[here]) > 1:
        lm[here, own[-1]] = next(host for host in targets if host != source and host in masters.groups[here])
    return Masters(masters.groups, gm, lm)
