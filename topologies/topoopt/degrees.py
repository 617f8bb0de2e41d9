"""Numbers of rings that AllReduce gets, and each of its groups (TopoOpt, Algorithm 1, lines 2, 3 and 5 to 11).

A ring over all servers takes two full-duplex ports of each, so degrees are counted in rings. What rings leave is for MP
transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.base.errors import TopologyError
from testbed.topologies.parameters import at_least, check_size
from testbed.topologies.topoopt.demand import Demand


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
