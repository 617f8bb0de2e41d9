"""A scheme of one's own: one tree over all hosts, up and down again.

A scheme is a function from a topology to a forest: for each class of chunks, the parent
of every node in a reduce-tree and in a broadcast-tree. Arguments after the first two are
its own: ``./tree.py:tree(fanout=3)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest


def tree(topology: Topology, tensor_sizes: Sequence[int], fanout: int = 2) -> Forest:
    """A heap-shaped tree, rooted at the first host: h's parent is (h - 1) // fanout."""
    del tensor_sizes  # the tree carries the whole gradient, whatever its tensors are
    if fanout < 1:
        raise SchemeError(f"tree: fanout is {fanout}", fix="give it 1 or more")
    # Switches only pass packets on, so they stay absent.
    parents = np.full((1, len(topology.nodes)), ABSENT, dtype=np.int32)
    hosts = np.arange(topology.host_count)
    parents[0, hosts] = (hosts - 1) // fanout
    parents[0, 0] = ROOT
    return Forest(
        scheme="tree",
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(topology.hosts),
        share=np.ones(1, dtype=np.int64),  # one class, all of the gradient
        reduce=parents,
        broadcast=parents,
    )
