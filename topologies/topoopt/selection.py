"""Selection of a group's rings that become circuits (TopoOpt, line 9 of Algorithm 1).

``geometric``, the default, is SelectPermutations of the paper's public code: strides in geometric ratio, so that routes
over them are short whatever the demand is. ``mp`` is the paper's TopPermutations (Algorithm 4): of picks that are
spread evenly over the candidates, the one whose circuits carry most of T_MP.

Why the default is not the paper's: evenly spread strides can be bad coins. Of 432 servers with four rings they are
1, 55, 109, 163, and routes have 13.6 hops in the mean; in geometric ratio they are 1, 5, 19, 95, and routes have 4.19.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.topoopt.coin_change import both_ways, fewest
from testbed.topologies.topoopt.totient import rings

Select = Literal["geometric", "mp"]
SELECTS: tuple[Select, ...] = get_args(Select)


def select(how: Select, members: Sequence[int], count: int, mp_bytes: NDArray[np.int64]) -> list[int]:
    """Select the strides of ``count`` rings of a group.

    If there are fewer rings than that, all are taken again and again, as parallel circuits, before a part of them is.

    Args:
        mp_bytes: T_MP of all servers; of it, only transfers between members matter here.
    """
    candidates = rings(len(members))
    again, rest = divmod(count, len(candidates))
    if not rest:
        return candidates * again
    if how == "geometric":
        return candidates * again + geometric(len(members), candidates, rest)
    return candidates * again + top_permutations(candidates, rest, by_difference(members, mp_bytes))


def geometric(members: int, candidates: Sequence[int], count: int) -> list[int]:
    """Select, for i = 0 ... r - 1, the unused candidate that is nearest to k^(i/r), the smaller of two."""
    unused = list(candidates)
    for i in range(count):
        unused.remove(_nearest(unused, round(members ** (i / count), 9)))  # so that 64^(1/2) is 8, as near to 7 as to 9
    return [stride for stride in candidates if stride not in unused]


def _nearest(strides: Sequence[int], target: float) -> int:
    return min(strides, key=lambda stride: (abs(stride - target), stride))


def by_difference(members: Sequence[int], mp_bytes: NDArray[np.int64]) -> list[int]:
    """Sum up the bytes between members by the difference of their places, (destination - source) mod k."""
    inside = mp_bytes[np.ix_(members, members)]
    size = len(members)
    place = np.arange(size)
    return [int(inside[place, (place + difference) % size].sum()) for difference in range(size)]


def top_permutations(candidates: Sequence[int], count: int, bytes_by_difference: Sequence[int]) -> list[int]:
    """Select by TopPermutations (Algorithm 4): of evenly spread picks, the one that satisfies most of T_MP.

    The pick from start s is the candidates (s + i P // r) mod P, i = 0 ... r - 1, of all P. What it satisfies is the
    bytes on direct circuits. Ties go to fewer hops, weighted by demand over the picked rings alone, then to the lower
    s.
    """
    size, total = len(bytes_by_difference), len(candidates)
    picks = [[candidates[(start + i * total // count) % total] for i in range(count)] for start in range(total)]
    direct = [sum(bytes_by_difference[coin] for coin in both_ways(size, pick)) for pick in picks]
    best = [pick for pick, satisfied in zip(picks, direct, strict=True) if satisfied == max(direct)]
    if len(best) == 1:
        return best[0]
    return min(best, key=lambda pick: _weighted_hops(size, pick, bytes_by_difference))


def _weighted_hops(size: int, strides: Sequence[int], bytes_by_difference: Sequence[int]) -> int:
    count = fewest(size, both_ways(size, strides))
    return sum(sent * hops for sent, hops in zip(bytes_by_difference, count, strict=True))
