"""2LHA, two-level hierarchical aggregation: local masters in groups, a global master among them, for each chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ROOT, Forest
from testbed.workloads.sync.trees import over, partition, racks


def two_level(topology: Topology, tensor_sizes: Sequence[int], *, groups: tuple[tuple[int, ...], ...] = ()) -> Forest:
    """2LHA: every host is the global master of one class, and a local master as often as its group's others.

    Class c has its global master (GM) at host c. In each other group one member is the local master (LM) of the class;
    members send to their LM, LMs to the GM, and the sum comes back the same way. So each group has as many GMs as it
    has hosts, and its LMs take turns over the classes of the other groups: where groups have the same size, every host
    is LM equally often, else within one class.

    ``groups`` are host numbers, ``two_level(groups=[[0,1],[2,3,4]])``; the racks unless given.

    Source: PHub thesis sections 4.1.2 and 4.2.2 (Parameter Link).
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    members = partition(topology, "two_level", groups) if groups else racks(topology, "two_level")
    count = topology.host_count
    gm = np.arange(count, dtype=np.int32)
    trees = np.empty((count, count), dtype=np.int32)
    for group in members:
        hosts = np.array(group, dtype=np.int32)
        elsewhere = np.setdiff1d(gm, hosts)
        lm = gm.copy()  # of each class, in this group: the GM itself where it is a member
        lm[elsewhere] = hosts[np.arange(len(elsewhere)) % len(hosts)]
        trees[:, hosts] = lm[:, None]
        trees[gm, lm] = gm
    trees[gm, gm] = ROOT
    return over(topology, trees)
