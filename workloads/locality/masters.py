"""Masters of 2LHA (PHub thesis, section 4.2.2) as a value: the host that is the global master (GM) of each class, and
the host that is its local master (LM) in each group. And how they move: all at once by Quicktune, or step by step by
Finetune (section 4.2.3).

Quicktune is a new assignment of all masters, for rates that have changed. Its aim is that the slowest host takes as
little time as possible, where host i takes

    t_i = sum over classes c of S(c) (LM(i,c) |G(i)| + GM(i,c) |G|) / sum over hosts n of BW(i,n)

with S(c) the bytes of a class, G(i) the host's group, and |G| the number of groups. As the thesis does, GMs go to
groups in proportion to their rates to other groups, and masters within a group in proportion to each host's rates.
Shares become whole numbers by the method of the largest remainder. The time is near the least possible one, and not
always the least.

By Finetune masters move away from the host that delays the others. The blame of a host grows with the time that it
takes and the load that it has. Masters move from the host with most blame to the host with least: one master at first,
and twice as many each time that the same host has most again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.sync.forest import ROOT, Parents
from testbed.workloads.sync.schemes.two_level import hierarchy, masters

Hosts = NDArray[np.float64]
"""A number for each host, float64[hosts]."""
Pairs = NDArray[np.float64]
"""A number from each host (row) to each other one (column), float64[hosts, hosts]."""


@dataclass(frozen=True, eq=False)
class Masters:
    """Masters of each class.

    Attributes:
        groups: hosts of each group, by number; each host is in one.
        gm: int32[classes], the GM of each class.
        lm: int32[groups, classes], its LM in each group: in the GM's group, the GM itself.
    """

    groups: tuple[tuple[int, ...], ...]
    gm: NDArray[np.int32]
    lm: NDArray[np.int32]

    @property
    def hosts(self) -> int:
        return sum(map(len, self.groups))

    @property
    def parents(self) -> Parents:
        """Trees of the masters, int32[classes, hosts]."""
        return hierarchy(self.groups, self.gm, self.lm)

    def sent_bytes(self, class_bytes: float) -> Hosts:
        """Compute the bytes that each host sends in an iteration: sums up each tree, and the total to each child."""
        trees = self.parents
        children = np.bincount(trees[trees != ROOT], minlength=self.hosts)
        sent: Hosts = class_bytes * ((trees != ROOT).sum(axis=0) + children)
        return sent

    @property
    def globals(self) -> NDArray[np.int64]:
        """Number of classes of which each host is the GM, int64[hosts]."""
        return np.bincount(self.gm, minlength=self.hosts)

    @property
    def locals(self) -> NDArray[np.int64]:
        """Number of classes of which each host is an LM, int64[hosts]. A GM is an LM, too."""
        return np.bincount(self.lm.ravel(), minlength=self.hosts)

    def group(self, host: int) -> int:
        """Return the number of a host's group."""
        return next(number for number, members in enumerate(self.groups) if host in members)


def of_trees(groups: Sequence[Sequence[int]], parents: Parents) -> Masters:
    """Read the masters from their trees, int32[classes, hosts], as :attr:`Masters.parents` makes them."""
    gm = (parents == ROOT).argmax(axis=1).astype(np.int32)
    below = parents == gm[:, None]
    lm = [np.where(np.isin(gm, group), gm, np.asarray(group)[below[:, list(group)].argmax(axis=1)]) for group in groups]
    return Masters(tuple(map(tuple, groups)), gm, np.array(lm, dtype=np.int32))


def quicktune(groups: Sequence[Sequence[int]], classes: int, rate_bps: Pairs) -> Masters:
    """Assign the masters of ``classes`` equal parts of the gradient by these rates; each host has a rate above 0."""
    own = _whole(rate_bps.sum(axis=1))
    between = rate_bps.copy()
    for group in groups:
        between[np.ix_(group, group)] = 0
    outside = [round(float(between[list(group)].sum())) for group in groups]
    if not sum(outside):  # one group; or none of several has sent to another
        outside = [sum(own[host] for host in group) for group in groups]
    return Masters(tuple(map(tuple, groups)), *masters(groups, classes, outside, own))


def _whole(rates_bps: Hosts) -> list[int]:
    return [max(1, round(rate_bps)) for rate_bps in rates_bps.tolist()]


BETA, GAMMA = 0.1, 0.9
"""Weights of load and of time in the blame. The thesis gives none. With equal weights, a host with two fifths of
the others' rate would keep masters: the larger loads of the others are then blamed as much as its longer time."""
EPSILON = 1.05
"""Largest ratio of the most blame to the least at which masters stay. The thesis gives none."""
MOST_MOVES = 8


def times_s(sent_bytes: Pairs, rate_bps: Pairs, rtt_s: Pairs) -> Hosts:
    """Compute the time of each host in an iteration: its longest round trip, and its bytes over its rates."""
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
