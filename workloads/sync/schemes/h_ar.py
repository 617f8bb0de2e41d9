"""H-AR, hybrid all-reduce: rings within racks, and rings across racks of the members that hold the same piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.trees import chains, over, racks


def h_ar(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Scatter-reduce within each rack, all-reduce between racks, all-gather within each rack; all by rings.

    With G racks of m hosts, class g m + i is summed along each rack's ring to the rack's i-th host, and from there
    along the ring of racks to rack g; its sum goes once more around the racks and then back along each rack's ring,
    2(m-1) + 2(G-1) steps. In a rack of fewer than m hosts (the most that any has), host i modulo their number stands
    for the i-th. The ring of every other rack runs in the opposite direction. Directions do not change the number of
    steps or the bytes on the busiest link. They change GST where workers start at different moments: see
    ``docs/decisions/rings-of-racks.md``.

    Source: Rina section III-A (H-AR).
    """
    groups = racks(topology, "h_ar")
    most = max(map(len, groups))
    return over(topology, _trees(groups, most, 1), _trees(groups, most, -1))


def _trees(groups: Sequence[Sequence[int]], most: int, way: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """Return parents along the ring of racks (``way`` 1: reduce) or against it (-1: broadcast, in which sums go on
    around the racks), and along each rack's ring, which has the opposite order in every other rack."""
    count = sum(map(len, groups))
    trees = np.empty((len(groups) * most, count), dtype=np.int32)
    member = np.array([[group[i % len(group)] for group in groups] for i in range(most)], dtype=np.int32)
    between = chains(range(len(groups))[::way])
    slot = np.arange(most)
    for r, group in enumerate(groups):
        hosts = np.array(group, dtype=np.int32)
        order = range(len(group))[:: -1 if r % 2 else 1]
        within = chains(order)[slot % len(group)]  # the i-th host's own entry is overwritten below
        for g in range(len(groups)):
            rows = g * most + slot
            trees[np.ix_(rows, hosts)] = hosts[within]
            upper = between[g, r]
            trees[rows, member[:, r]] = member[:, upper] if upper >= 0 else upper
    return trees
