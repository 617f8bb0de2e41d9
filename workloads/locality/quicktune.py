"""Quicktune: a new assignment of all masters, for rates that have changed (PHub thesis, section 4.2.3).

Its aim is that the slowest host takes as little time as possible, where host i takes

    t_i = sum over classes c of S(c) (LM(i,c) |G(i)| + GM(i,c) |G|) / sum over hosts n of BW(i,n)

with S(c) the bytes of a class, G(i) the host's group, and |G| the number of groups. As the thesis does, GMs go to
groups in proportion to their rates to other groups, and masters within a group in proportion to each host's rates.
Shares become whole numbers by the method of the largest remainder. The time is near the least possible one, and not
always the least.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.workloads.locality.masters import Hosts, Masters, Pairs
from testbed.workloads.sync.schemes.two_level import masters


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
