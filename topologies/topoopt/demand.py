"""Transfers of a training job in one iteration: AllReduce transfers within groups, and T_MP between pairs of servers.

These are the inputs T_AllReduce and T_MP of TopoOpt's Algorithm 1. Those of the two models of the controlled
experiments (section 2.2) are here, under the strategies given there: a server's samples of a batch go to the holder of
a table or tower, and their activations and gradients are MP transfers: Appendix B counts 8,192 samples of 512 doubles a
server, 32 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from testbed.base.errors import SpecError

MOST_BYTES = 2**53
"""Limit on the bytes of one transfer: the whole numbers up to here are exact as floats, too."""
MOST_TOTAL_BYTES = 2**62
"""Limit on the bytes of all transfers: sums of them are in 64 bits."""
MOST_SERVERS = 4096
"""Limit on the servers: T_MP of as many takes 128 MiB."""


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that sum gradients among themselves.

    Attributes:
        members: at least two, in rising order; the j-th of them has *place* j.
        transfer_bytes: what each member sends in all, "the size of each AllReduce transfer" (section 2.2).
    """

    members: tuple[int, ...]
    transfer_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes that all members send: sum(T_k) in Algorithm 1."""
        return len(self.members) * self.transfer_bytes

    @classmethod
    def of_gradient(cls, members: Sequence[int], gradient_bytes: int) -> Group:
        """Make the group that reduces a gradient around rings: each member sends 2 (k - 1) / k of it."""
        size = len(members)
        return cls(tuple(members), -(-2 * (size - 1) * gradient_bytes // size) if size else 0)


@dataclass(frozen=True, eq=False)
class Demand:
    """A job's transfers in one iteration; :func:`demand` checks them. ``mp_bytes`` is T_MP, int64[n, n]: row i, column
    j is what server i sends to server j for model parallelism."""

    servers: int
    groups: tuple[Group, ...]
    mp_bytes: NDArray[np.int64]

    @property
    def allreduce_total_bytes(self) -> int:
        """Bytes of all AllReduce transfers, A: sum(T_AllReduce)."""
        return sum(group.total_bytes for group in self.groups)

    @property
    def mp_total_bytes(self) -> int:
        """Bytes of all MP transfers, M: sum(T_MP)."""
        return int(self.mp_bytes.sum())

    def pairs(self) -> list[tuple[int, int, int]]:
        """List source, destination and bytes of each MP transfer."""
        sources, destinations = np.nonzero(self.mp_bytes)
        sizes = self.mp_bytes[sources, destinations]
        return [(int(i), int(j), int(size)) for i, j, size in zip(sources, destinations, sizes, strict=True)]


def demand(servers: int, groups: Sequence[Group], mp_bytes: ArrayLike) -> Demand:
    """Check a job's transfers. Parts of a byte are rounded up, members put into rising order.

    Raises:
        SpecError: a server does not exist or is in a group twice, bytes are negative or no number, or there are none.
    """
    check_servers(servers)
    checked = tuple(_group(servers, group, place) for place, group in enumerate(groups))
    for (i, one), (j, other) in combinations(enumerate(checked), 2):
        if one.members == other.members:
            raise SpecError(
                f"groups {i} and {j} have the same members", fix="make one group of them: add up their bytes"
            )
    found = Demand(servers, checked, _matrix(servers, mp_bytes))
    if found.mp_bytes.sum(dtype=np.float64) > MOST_TOTAL_BYTES:
        raise SpecError("the MP transfers are more than 4 EiB in all", fix="give their bytes of one iteration")
    if found.allreduce_total_bytes + found.mp_total_bytes == 0:
        raise SpecError("the job sends nothing", fix="give AllReduce groups, MP transfers, or both")
    return found


def check_servers(servers: int, least: int = 2) -> None:
    """Raise SpecError if there are too few or too many."""
    if not least <= servers <= MOST_SERVERS:
        raise SpecError(f"a job of {servers:,} servers", fix=f"give {least} to {MOST_SERVERS:,} servers")


def _group(servers: int, group: Group, place: int) -> Group:
    members = sorted(group.members)
    for member in members:
        if not 0 <= member < servers:
            raise SpecError(
                f"group {place} names server {member}, which does not exist", fix=f"name servers 0 to {servers - 1}"
            )
        if members.count(member) > 1:
            raise SpecError(f"group {place} names server {member} twice", fix="name each member once")
    if len(members) < 2:
        raise SpecError(
            f"group {place} has {len(members)} member{'s' * (not members)}",
            fix="name at least two servers, or leave it out",
        )
    if not 0 < group.transfer_bytes <= MOST_BYTES:
        raise SpecError(
            f"group {place} sends {group.transfer_bytes:,} B",
            fix=f"give each of its members 1 to {MOST_BYTES:,} B to send",
        )
    return Group(tuple(members), int(group.transfer_bytes))


def _matrix(servers: int, mp_bytes: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(mp_bytes, dtype=np.float64)
    if given.shape != (servers, servers):
        shape = " x ".join(map(str, given.shape)) or "one number"
        raise SpecError(f"T_MP is {shape}", fix=f"give {servers} x {servers} numbers, a row for each source")
    wrong = np.argwhere(~((given >= 0) & (given <= MOST_BYTES)))  # NaN is neither
    if len(wrong):
        i, j = map(int, wrong[0])
        raise SpecError(f"T_MP: server {i} sends {given[i, j]:g} B to server {j}", fix=f"give 0 to {MOST_BYTES:,} B")
    itself = np.flatnonzero(given.diagonal())
    if len(itself):
        i = int(itself[0])
        raise SpecError(
            f"T_MP: server {i} sends {given[i, i]:g} B to itself", fix="give 0 there: that crosses no network"
        )
    found = np.ceil(given).astype(np.int64)
    found.flags.writeable = False
    return found


ACTIVATIONS_BYTES = 8192 * 512 * 8
"""Bytes of activations for the samples of one server, forward or backward (Appendix B)."""
_GIB = 2**30


def dlrm(servers: int = 16, tables: Sequence[int] | None = None) -> Demand:
    """Return the transfers of DLRM: each embedding table on one server, all else on all of them.

    With 16 servers an AllReduce transfer is 4 GB, read as 4 GiB; with more or fewer it is the same gradient's.

    Args:
        tables: the server of each table; section 2.2's are on 0, 3, 8 and 13 of 16, and of other numbers in proportion.
    """
    check_servers(servers)
    holders = [place * servers // 16 for place in (0, 3, 8, 13)] if tables is None else tables
    everyone = tuple(range(servers))
    dense = Group(everyone, 4 * _GIB * 16 * (servers - 1) // (15 * servers))
    mp = np.zeros((servers, servers), dtype=np.int64)
    for holder in holders:
        _exchange(mp, [holder])
    return demand(servers, [dense], mp)


def candle(servers: int = 16) -> Demand:
    """Return the transfers of CANDLE: a drug tower on the first quarter of the servers, a cell tower on the last, all
    else on all of them.

    It needs 8 servers, two for each tower. The towers have 4 GB each, read as 4 GiB. The paper does not say what all
    else has: 1 GiB is assumed, and the activations of Appendix B. A server's samples go to one of a tower's holders,
    neighbours' to the same.
    """
    check_servers(servers, least=8)  # two for each tower
    quarter = servers // 4
    drug, cell = range(quarter), range(servers - quarter, servers)
    groups = [Group.of_gradient(drug, 4 * _GIB), Group.of_gradient(cell, 4 * _GIB)]
    groups.append(Group.of_gradient(range(servers), _GIB))
    mp = np.zeros((servers, servers), dtype=np.int64)
    for holders in (drug, cell):
        _exchange(mp, holders)
    return demand(servers, groups, mp)


MODELS: dict[str, Callable[[int], Demand]] = {"dlrm": dlrm, "candle": candle}
"""The transfers of each model, by name, on a number of servers."""


def _exchange(mp: NDArray[np.int64], holders: Sequence[int]) -> None:
    """Add activations from the holders to every server, and gradients back."""
    for server in range(len(mp)):
        holder = holders[server * len(holders) // len(mp)]
        if holder != server:
            mp[holder, server] += ACTIVATIONS_BYTES
            mp[server, holder] += ACTIVATIONS_BYTES
