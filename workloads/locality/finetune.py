"""Finetune: masters move, step by step, away from the host that delays the others (PHub thesis, section 4.2.3).

The blame of a host grows with the time that it takes and the load that it has. Masters move from the host with most
blame to the host with least: one master at first, and twice as many each time that the same host has most again.
"""

from __future__ import annotations

import numpy as np

from testbed.workloads.locality.masters import Hosts, Masters, Pairs

BETA, GAMMA = 0.1, 0.9
"""Weights of load and of time in the blame. The thesis gives none. With equal weights, a host with two fifths of
the others' rate would keep masters: the larger loads of the others are then blamed as much as its longer time."""
EPSILON = 1.05
"""Largest ratio of the most blame to the least at which masters stay. The thesis gives none."""
MOST_MOVES = 8


def times_s(sent_bytes: Pairs, rate_bps: Pairs, rtt_s: Pairs) -> Hosts:
    """Compute for how long each host moves bytes in an iteration: its longest round trip, and its bytes over the sum of
    its rates."""
    moving_s: Hosts = rtt_s.max(axis=1) + 8 * sent_bytes.sum(axis=1) / rate_bps.sum(axis=1)
    return moving_s


def blame(sent_bytes: Hosts, took_s: Hosts, beta: float = BETA, gamma: float = GAMMA) -> Hosts:
    """Blame each host: ``beta`` times its load, scaled to 0 for the least and 1 for the most, and ``gamma`` times its
    time over the mean. Equal loads are 0."""
    spread = np.ptp(sent_bytes)
    load = (sent_bytes - sent_bytes.min()) / spread if spread else np.zeros(len(sent_bytes))
    blamed: Hosts = beta * load + gamma * took_s / took_s.mean()
    return blamed


class Finetune:
    """A sequence of steps. It remembers the host from which masters moved last, and how many."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._moves = 1

    def step(self, masters: Masters, blamed: Hosts) -> Masters | None:
        """Return the masters after a step; None if blame is about equal, or if no host has a master to give away."""
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
    """Whether a host is the master of a class, and another host can become it."""
    return bool(masters.globals[host] or (masters.locals[host] and len(masters.groups[masters.group(host)]) > 1))


def moved(masters: Masters, source: int, targets: list[int]) -> Masters:
    """Make the first of ``targets`` the GM of a class whose GM is ``source``. If ``source`` is GM of none, make the
    first target in its group the LM of a class whose LM is ``source``. If ``source`` is no master, nothing moves.

    The new GM is also the LM of the class in its group. If the old GM is in another group, it stays the LM there.
    """
    gm, lm = masters.gm.copy(), masters.lm.copy()
    here = masters.group(source)
    if (own := np.flatnonzero(gm == source)).size:
        target = next(host for host in targets if host != source)
        gm[own[-1]] = lm[masters.group(target), own[-1]] = target
    elif (own := np.flatnonzero(lm[here] == source)).size and len(masters.groups[here]) > 1:
        lm[here, own[-1]] = next(host for host in targets if host != source and host in masters.groups[here])
    return Masters(masters.groups, gm, lm)
