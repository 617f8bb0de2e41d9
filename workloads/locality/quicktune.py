"""Quicktune: masters anew for rates that have changed (PHub thesis, section 4.2.3).

It is to make the longest time of a host least, where a host takes

    t_i = sum over classes c of S(c) (LM(i,c) |G(i)| + GM(i,c) |G|) / sum over hosts n of BW(i,n)

with S(c) the bytes of a class, G(i) the host's group, and |G| the number of groups. As the thesis does, GMs go to groups
in proportion to their rates to other groups, and masters within a group in proportion to each host's rates, whole
numbers by the method of the largest remainder. That is near the best, and not always the best
(:func:`longest_s` of both is compared in the tests).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.workloads.locality.masters import Hosts, Masters, Pairs
from testbed.workloads.sync.schemes.two_level import masters


def quicktune(groups: Sequence[Sequence[int]], classes: int, rate_bps: Pairs) -> Masters:
    """Assign the masters of ``classes`` equal parts of the gradient for these rates, of which each host has some."""
    own = _whole(rate_bps.sum(axis=1))
    between = rate_bps.copy()
    for group in groups:
        between[np.ix_(group, group)] = 0
    outside = [int(round(float(between[list(group)].sum()))) for group in groups]
    if not sum(outside):  # one group; or none of several has sent to another
        outside = [sum(own[host] for host in group) for group in groups]
    return Masters(tuple(map(tuple, groups)), *masters(groups, classes, outside, own))


def times_s(masters: Masters, class_bytes: float, rate_bps: Pairs) -> Hosts:
    """Compute for how long each host moves bytes in an iteration by the thesis's formula (s), t_i above."""
    size = np.empty(masters.hosts)
    for group in masters.groups:
        size[list(group)] = len(group)
    parts: Hosts = masters.locals * size + masters.globals * len(masters.groups)
    return 8 * class_bytes * parts / rate_bps.sum(axis=1)


def _whole(rates_bps: Hosts) -> list[int]:
    return [max(1, round(rate_bps)) for rate_bps in rates_bps.tolist()]
