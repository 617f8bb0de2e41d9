"""A server with several NICs in a real lab: each NIC carries its share of every worker's bytes, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench
from tests.testbed.records import carried_what_the_forest_says

pytestmark = pytest.mark.lab

SPEC = """
name: nics
links: {rate: 300 Gbit/s}
workload: {kind: profile, model: vgg16, batch: 32, scale: 3000, compute: {mode: paced, pace: {32: 30 ms}}, \
iterations: 4, chunk: 4 KiB}
arms:
  - {topology: "star(hosts=4,server_nics=4,routing=every_nic)", scheme: ps(colocated=false)}
  - {topology: "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)",
     scheme: hierarchical_ps(colocated=false)}
  - {topology: "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)", scheme: ps}
quiet: 0 s
"""


def test_every_nic_carries_its_share(bench: Bench, tmp_path: Path) -> None:
    """In the last arm workers listen for servers of lower rank, each of which connects from all of its NICs."""
    for outcome in bench.run(SPEC, tmp_path):
        record = outcome.record
        assert record["status"] == "done", record["error"]
        assert record["sums"]["wrong_elements"] == 0
        carried_what_the_forest_says(record)
        assert all(link["theory_bytes"] for link in record["links"]), "no NIC is dark"
