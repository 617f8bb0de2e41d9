"""Two binary trees at once, so that who is a leaf of one is an inner node of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topologies.model import Topology
from workloads.sync.cost import depth
from workloads.sync.forest import ROOT, Forest
from workloads.sync.trees import over


def double_binary_tree(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Half of the gradient along each of two binary trees of depth about log2 N.

    In the first tree odd hosts are leaves: host h, whose lowest set bit is b, is a child of (h - b) with the next
    higher bit set, or of h - b where that is beyond the last host; host 0 is the root. The second is its mirror image,
    host h in place of N-1-h, where N is even, and the first shifted by one host where N is odd. Hence each host is a
    leaf of one tree at least (but host 0, where N is odd), and no link carries much more than the gradient twice.

    Source: Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"; NCCL,
    src/graph/trees.cc; PHub thesis section 1.1.5, "Tree".
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    count = topology.host_count
    first = np.array([_parent(host, count) for host in topology.hosts], dtype=np.int32)
    host = np.arange(count)
    role = (host - 1) % count if count % 2 else count - 1 - host  # of each host in the second tree
    actor = np.argsort(role).astype(np.int32)
    second = np.where(first[role] == ROOT, ROOT, actor[first[role]]).astype(np.int32)
    trees = np.stack([first, second])
    return over(topology, trees, window=2 * int(depth(trees).max()) + 2)  # as in tree


def _parent(host: int, count: int) -> int:
    if host == 0:
        return ROOT
    bit = host & -host
    parent = (host ^ bit) | bit << 1
    return parent if parent < count else host ^ bit
