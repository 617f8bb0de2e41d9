"""Cost of a synchronisation over boxes, and when adding in racks pays (PHub thesis, sections 2.3 and 3.2.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.kinds.phub.keys import Keys
from testbed.workloads.kinds.phub.plan import Boxes
from testbed.workloads.sync.cost import Cost, cost_of_flows
from testbed.workloads.sync.flows import Flows

Way = tuple[int, int, int]
"""Sender, receiver, and the connection of the two."""


def flows(plan: Boxes, keys: Keys) -> Flows:
    """Compute the bytes of an iteration, by sender, receiver and connection."""
    owned: Counter[tuple[int, int]] = Counter()
    for box, nic, size in zip(keys.box.tolist(), keys.nic.tolist(), keys.size_bytes.tolist(), strict=True):
        owned[box, nic] += size
    moved: Counter[Way] = Counter()
    for worker, rack in zip(plan.workers, plan.rack, strict=True):
        for (box, nic), count in owned.items():
            _both_ways(moved, plan, worker, (rack if plan.adds_racks else box, nic), count)
    boxes = range(len(plan.boxes))
    for (owner, nic), count in owned.items():
        for other in set(boxes) - {owner} if plan.options.across == "ps" else ():
            for ends in ((owner, other), (other, owner)):
                moved[plan.boxes[ends[0]], plan.boxes[ends[1]], nic] += count
        for sender in boxes if plan.options.across == "ring" else ():
            # Partial sums go round up to the owner, and sums from it: each to all boxes but one.
            receiver = (sender + 1) % len(boxes)
            times = (sender != owner) + (receiver != owner)
            moved[plan.boxes[sender], plan.boxes[receiver], nic] += times * count
    ways = sorted(way for way, count in moved.items() if count)
    columns = np.array(ways, np.int64).reshape(-1, 3).T
    return Flows(columns[0], columns[1], np.array([moved[way] for way in ways], np.float64), columns[2])


def _both_ways(moved: Counter[Way], plan: Boxes, worker: int, at: tuple[int, int], count: int) -> None:
    """Add a worker's gradients for a NIC of a box, and the weights that come back."""
    node, connection = plan.boxes[at[0]], plan.connection(worker, at[1])
    if node != worker:
        moved[worker, node, connection] += count
        moved[node, worker, connection] += count


def cost(plan: Boxes, topology: Topology, keys: Keys) -> Cost:
    """Compute the cost of a synchronisation.

    Raises:
        TopologyError: a worker and a box have no route.
    """
    further = {"none": 0, "ps": 2, "ring": 2 * (len(plan.boxes) - 1)}[plan.options.across]
    return cost_of_flows(flows(plan, keys), topology, 2 + further)


def wide_over_tall(layers: Sequence[int]) -> float:
    """Return the time of wide aggregation as a multiple of tall aggregation's: the largest layer's weights go back only
    after all of it has come."""
    return 1 + max(layers) / sum(layers)


def flat_s(workers: int, racks: int, core_bps: float) -> float:
    """Return the time (s) for a bit of the gradient to cross racks, with ``workers`` in each, without adding in racks:
    N (R - 1) / (R B_core)."""
    return workers * (racks - 1) / (racks * core_bps)


def hierarchical_s(workers: int, racks: int, worker_bps: float, box_bps: float, core_bps: float) -> float:
    """Return the time (s) for a bit of the gradient to be added in racks and then across: max(N / B_box, 1 / B_wkr) +
    (R - 1) / (R min(B_box, B_core)), one direction, one stage after the other."""
    return max(workers / box_bps, 1 / worker_bps) + (racks - 1) / (racks * min(box_bps, core_bps))
