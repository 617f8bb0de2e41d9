"""Two binary trees at once, so that a leaf of one is an inner node of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import depth
from testbed.workloads.sync.forest import ROOT, Forest
from testbed.workloads.sync.trees import along, over


def double_binary_tree(topology: Topology, tensor_sizes: Sequence[int], *, strides: tuple[int, ...] = (1,)) -> Forest:
    """Half of the gradient along each of two binary trees of depth about log2 N.

    In the first tree odd hosts are leaves: host h, whose lowest set bit is b, is a child of (h - b) with the next
    higher bit set, or of h - b where that is beyond the last host; host 0 is the root. The second is its mirror image,
    host h in place of N-1-h, where N is even, and the first shifted by one host where N is odd. Hence each host is a
    leaf of one tree at least (but host 0, where N is odd), and no link carries much more than the gradient twice.

    ``double_binary_tree(strides=[1,3])``: such a pair for each stride, with equal parts of the gradient, in which host
    3 h (mod N) takes the place of host h (TopoOpt, Appendix A).

    Source: Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"; NCCL,
    src/graph/trees.cc; PHub thesis section 1.1.5, "Tree"; TopoOpt, Appendix A.
    """
    count = topology.host_count
    first = np.array([_parent(host, count) for host in topology.hosts], dtype=np.int32)
    host = np.arange(count)
    role = (host - 1) % count if count % 2 else count - 1 - host  # of each host in the second tree
    actor = np.argsort(role).astype(np.int32)
    second = _relabelled(first, actor)
    labels = [np.array(along(topology, "double_binary_tree", stride), dtype=np.int32) for stride in strides]
    if not labels:
        raise SchemeError("double_binary_tree: strides is empty", fix="write it as double_binary_tree(strides=[1,3])")
    trees = np.stack([_relabelled(tree, label) for label in labels for tree in (first, second)])
    return over(topology, trees, window=2 * int(depth(trees).max()) + 2)  # as in tree


def _relabelled(tree: NDArray[np.int32], label: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the tree with host ``label[h]`` in place of host h."""
    found = np.empty_like(tree)
    found[label] = np.where(tree == ROOT, ROOT, label[tree])
    return found


def _parent(host: int, count: int) -> int:
    if host == 0:
        return ROOT
    bit = host & -host
    parent = (host ^ bit) | bit << 1
    return parent if parent < count else host ^ bit
