"""Parameter servers in racks, and servers or a ring across them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.trees import chains, over, racks, stars

_WINDOW = 4
"""Chunks of a class that a worker has on the way. A rack's server hears its workers and the other servers on one link.
Workers that send all they have fill its queue, the sums of other racks wait behind that, and the server sends little
until its workers are through: GST was 1.5 to 1.6 of the bound on two racks of four, and is 1.02 with 4 chunks of 32 KiB
on the way, 1.05 with 16, 1.10 with 32."""


def hierarchical_ps(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    across: Literal["ps", "ring"] = "ps",
    colocated: bool = True,
) -> Forest:
    """A server in each rack adds up its workers; the servers add up the racks, as sharded PS or as a ring.

    One class a rack: of class c, every worker's gradient goes to its rack's server, and from there to the server of
    rack c, directly (``across=ps``) or along the ring of racks (``across=ring``); the sum comes back the same way. A
    rack's server is its first host, or with ``colocated=false`` its last one, which then has no gradient of its own (a
    PBox in each rack).

    Source: PHub thesis section 2.3.
    """
    groups = racks(topology, "hierarchical_ps")
    server = np.array([group[0 if colocated else -1] for group in groups], dtype=np.int32)
    if not colocated and any(len(group) < 2 for group in groups):
        raise SchemeError(
            f"hierarchical_ps(colocated=false) needs a server and a worker in each rack, and one of "
            f"{topology.expression} has a single host",
            fix="take two hosts or more a rack, or colocated=true",
        )
    local = np.full(topology.host_count, ABSENT, dtype=np.int32)
    for group, at in zip(groups, server, strict=True):
        local[group] = at
    up, down = (np.repeat(local[None, :], len(groups), axis=0) for _ in range(2))
    number = np.arange(len(groups), dtype=np.int32)
    for trees, order in ((up, number), (down, number[::-1])):
        between = chains(order.tolist()) if across == "ring" else stars(len(groups))
        trees[:, server] = np.where(between >= 0, server[between], between)
    workers = None if colocated else [host for host in topology.hosts if host not in set(server.tolist())]
    return over(topology, up, down, workers=workers, window=_WINDOW)
