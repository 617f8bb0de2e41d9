"""One tree for the whole gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import depth
from testbed.workloads.sync.forest import ROOT, Forest
from testbed.workloads.sync.trees import over


def tree(topology: Topology, tensor_sizes: Sequence[int], *, fanout: int = 2) -> Forest:
    """Everything to host 0 along one tree, in which up to fanout hosts meet at a time.

    The hosts are the leaves of a complete tree whose inner nodes are at the first of their leaves: a host's parent is
    its number, in base ``fanout``, with the lowest digit that is not 0 set to 0. At most ceil(log_fanout N) steps each
    way; the root receives (fanout - 1) gradients a step.

    Source: PHub thesis section 1.1.5, "Tree", and Table 4.1.
    """
    if fanout < 2:
        raise SchemeError(f"tree: fanout is {fanout}", fix="give fanout 2 or more")
    parents = np.arange(topology.host_count, dtype=np.int32)[None, :]
    weight = 1
    while weight < topology.host_count:
        untouched = parents[0] == np.arange(topology.host_count)
        parents = np.where(untouched, parents // (weight * fanout) * (weight * fanout), parents)
        weight *= fanout
    parents[0, 0] = ROOT
    # Without a limit the flows towards a host drift apart, and what is to be added waits for the slowest: GST was 1.6
    # of the bound on racks. A chunk passes 2 x depth hops to the root and back; some more keep links full.
    return over(topology, parents, window=2 * int(depth(parents).max()) + 2)
