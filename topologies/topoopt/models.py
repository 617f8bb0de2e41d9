"""The transfers of the two models of TopoOpt's controlled experiments (section 2.2), under the strategies given there.

A server's samples of a batch go to the holder of a table or tower, and their activations and gradients are MP
transfers: Appendix B counts 8,192 samples of 512 doubles a server, 32 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.topoopt.demand import Demand, Group, check_servers, demand

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
