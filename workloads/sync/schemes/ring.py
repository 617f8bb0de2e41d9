"""Ring all-reduce: each of N classes is summed along the ring and the sum goes once more around."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topologies.model import Topology
from workloads.sync.forest import ABSENT, ROOT, Forest


def ring(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Chunked ring over the hosts in the topology's order.

    Class c is summed along c+1, c+2, ..., c (scatter-reduce) and its sum travels c, c+1, ..., c-1 (all-gather), so a
    worker only ever sends to its successor; GST >= 2(N-1)/N x T_F.

    Source: BML section 2, "Ring AllReduce".
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    count = topology.host_count
    worker = np.arange(count)
    successor, predecessor = (worker + 1) % count, (worker - 1) % count
    reduce = np.full((count, len(topology.nodes)), ABSENT, dtype=np.int32)
    broadcast = reduce.copy()
    reduce[:, :count] = successor
    broadcast[:, :count] = predecessor
    reduce[worker, worker] = ROOT
    broadcast[worker, worker] = ROOT
    return Forest(
        scheme="ring",
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(topology.hosts),
        share=np.ones(count, dtype=np.int64),
        reduce=reduce,
        broadcast=broadcast,
    )
