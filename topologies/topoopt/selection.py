"""Numbers of rings that AllReduce gets, and each of its groups (TopoOpt, Algorithm 1, lines 2, 3 and 5 to 11); and the
selection of a group's rings that become circuits (line 9).

A ring over all servers takes two full-duplex ports of each, so degrees are counted in rings. What rings leave is for MP
transfers.

``geometric``, the default, is SelectPermutations of the paper's public code: strides in geometric ratio, so that routes
over them are short whatever the demand is. ``mp`` is the paper's TopPermutations (Algorithm 4): of picks that are
spread evenly over the candidates, the one whose circuits carry most of T_MP.

Why the default is not the paper's: evenly spread strides can be bad coins. Of 432 servers with four rings they are 1,
55, 109, 163, and routes have 13.6 hops in the mean; in geometric ratio they are 1, 5, 19, 95, and routes have 4.19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TopologyError
from testbed.topologies.parameters import at_least, check_size
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.rings import both_ways, fewest, rings

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


@dataclass(frozen=True, slots=True)
class Allotment:
    """The rings of one group; ``group`` is None for the ring over all servers that no group asked for."""

    group: int | None
    members: tuple[int, ...]
    rings: int


def rings_that_fit(servers: int, degree: int) -> int:
    """Return R, the number of rings over all servers that d interfaces each can hold.

    Two panels hold a ring; if n is odd, its last circuit needs a third, which last circuits of other rings share. A
    panel holds n // 2 circuits at most.

    Raises:
        TopologyError: none fits, or there are too many ports.
    """
    at_least("topoopt", 2, servers=servers)
    at_least("topoopt", 1, degree=degree)
    check_size("topoopt", servers * degree, servers=servers, degree=degree)
    fitting = min((degree - servers % 2) // 2, degree * (servers // 2) // servers)
    if fitting:
        return fitting
    odd = "over an odd number of servers " * (servers % 2)
    raise TopologyError(
        f"topoopt: {servers} servers of degree {degree} cannot be joined by a ring: {odd}it takes "
        f"{2 + servers % 2} panels",
        fix=f"give degree={2 + servers % 2} or more" + ", or one server more" * (servers % 2),
    )


def allreduce_share(job: Demand) -> float:
    """Compute A / (A + M), the share of AllReduce in all bytes."""
    return job.allreduce_total_bytes / (job.allreduce_total_bytes + job.mp_total_bytes)


def allreduce_rings(job: Demand, degree: int) -> int:
    """Compute max(1, ceil(R A / (A + M))): at least one, so that circuits join all servers (line 2)."""
    rings = rings_that_fit(job.servers, degree)
    return max(1, _ceil(rings * job.allreduce_total_bytes, job.allreduce_total_bytes + job.mp_total_bytes))


def allot(job: Demand, rings: int) -> list[Allotment]:
    """Allot ``rings`` to groups, groups with most bytes first; groups that get none are left out.

    A group gets the ceiling of its share of all rings, or as many as its members have ports left: AllReduce takes at
    most 2 ``rings`` ports of a server. Groups leave those of one ring to the group that has all servers. If there is no
    such group, a ring over all comes first.
    """
    everyone = tuple(range(job.servers))
    left = [2 * rings] * job.servers
    found = []
    waiting = any(group.members == everyone for group in job.groups)
    if not waiting:
        found.append(Allotment(None, everyone, 1))
        _take(left, everyone, 2)
    for number in sorted(range(len(job.groups)), key=lambda number: (-job.groups[number].total_bytes, number)):
        group = job.groups[number]
        waiting = waiting and group.members != everyone
        each = 1 if len(group.members) == 2 < job.servers else 2  # two servers are one circuit
        ports = min(left[server] for server in group.members) - 2 * waiting
        share = _ceil(rings * group.total_bytes, job.allreduce_total_bytes)
        if given := min(share, ports // each):
            found.append(Allotment(number, group.members, given))
            _take(left, group.members, given * each)
    return found


def _take(left: list[int], members: Sequence[int], ports: int) -> None:
    for server in members:
        left[server] -= ports


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
