"""What is said of NICs that are not what the inventory, or the topology, says."""

from __future__ import annotations

import pytest

from testbed.lab.baremetal.networks.measuring import remarks
from testbed.workloads.sync.cost import goodput

GBIT = 10**9


@pytest.mark.parametrize(
    ("carried_bps", "inventory_bps", "said"),
    [
        (1 * GBIT, 1 * GBIT, []),
        (1 * GBIT, None, []),
        (1 * GBIT, 10 * GBIT, ["node1's eth1 carries 1 Gbit/s, the inventory says 10 Gbit/s"]),
        (10 * GBIT, 1 * GBIT, ["node1's eth1 carries 10 Gbit/s, the inventory says 1 Gbit/s"]),
        (GBIT // 10, None, ["node1's eth1 carries 100 Mbit/s, the topology wants 200 Mbit/s"]),
    ],
)
def test_rates_that_differ_are_told(carried_bps: int, inventory_bps: int | None, said: list[str]) -> None:
    found = {"host": "node1", "nic": "eth1", "inventory_bps": inventory_bps, "asked_bps": GBIT // 5}
    assert remarks([{**found, "rate_bps": round(carried_bps * goodput(1500))}]) == said
