"""Ring all-reduce: each of N classes is summed along the ring and the sum goes once more around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.groups import check_members, together
from testbed.workloads.sync.rotation import Rotation, like
from testbed.workloads.sync.trees import rings


def ring(topology: Topology, tensor_sizes: Sequence[int], *, members: tuple[tuple[int, ...], ...] = ()) -> Forest:
    """Chunked ring over the hosts in the topology's order.

    Class c is summed along c+1, c+2, ..., c (scatter-reduce) and its sum travels c, c+1, ..., c-1 (all-gather), so a
    worker only ever sends to its successor; GST >= 2(N-1)/N x T_F.

    ``ring(members=[[0,1,2],[2,3,4,5]])``: a ring a group of hosts, in the order given, all at once. Each has an equal
    part of the gradient, which only its members sum, so a profile can be played, and no model trained.

    The segmented ring of Open MPI and the segments of Gloo's are the same forest: a class's share is sent in chunks
    that follow each other, and the workload's ``chunk_bytes`` is the segment.

    Source: BML section 2, "Ring AllReduce"; PHub thesis section 1.1.5.
    """
    if not members:
        return rings(topology, [topology.hosts])
    check_members(topology, "ring", members)
    return together(topology, [(rings(topology, [order]), 1) for order in members])


def turned_ring(topology: Topology) -> Rotation:
    """The ring over all hosts as class 0 and a rotation, by which each host comes in the place of the next one."""
    count, switches = topology.host_count, len(topology.switches)
    hosts, absent = np.arange(count, dtype=np.int32), np.full(switches, ABSENT, np.int32)
    reduce = np.append(np.append(ROOT, (hosts[1:] + 1) % count).astype(np.int32), absent)
    broadcast = np.append(np.append(ROOT, hosts[:-1]).astype(np.int32), absent)
    turn = np.append((hosts + 1) % count, np.arange(count, count + switches)).astype(np.int32)
    names = tuple(node.name for node in topology.nodes)
    return Rotation("", names, tuple(topology.hosts), reduce, broadcast, turn, like(turn, topology))
