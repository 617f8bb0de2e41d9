"""Ring all-reduce: each of N classes is summed along the ring and the sum goes once more around."""

from __future__ import annotations

from collections.abc import Sequence

from topologies.model import Topology
from workloads.sync.forest import Forest
from workloads.sync.trees import chains, over


def ring(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Chunked ring over the hosts in the topology's order.

    Class c is summed along c+1, c+2, ..., c (scatter-reduce) and its sum travels c, c+1, ..., c-1 (all-gather), so a
    worker only ever sends to its successor; GST >= 2(N-1)/N x T_F.

    The segmented ring of Open MPI and the segments of Gloo's are the same forest: a class's share is sent in chunks
    that follow each other, and the workload's ``chunk_bytes`` is the segment.

    Source: BML section 2, "Ring AllReduce"; PHub thesis section 1.1.5.
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    return over(topology, chains(topology.hosts), chains(topology.hosts[::-1]))
