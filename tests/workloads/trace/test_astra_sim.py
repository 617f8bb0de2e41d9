"""Networks for ASTRA-sim."""

from __future__ import annotations

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.workloads.trace.astra_sim import network


@pytest.mark.parametrize(
    ("text", "delay_s", "shape", "count", "latency"),
    [
        ("star(hosts=4)", 0.0, "Switch", 4, "0.0"),
        ("patch_panel(servers=4,degree=2,rings=[1])", 1e-6, "Ring", 4, "2000.0"),
        ("patch_panel(servers=5,degree=3,rings=[1])", 0.0, "Ring", 5, "0.0"),
    ],
)
def test_a_star_is_a_switch_and_a_ring_of_circuits_a_ring(
    text: str, delay_s: float, shape: str, count: int, latency: str
) -> None:
    topology = build(text, rate_bps=8_000_000_000, delay_s=delay_s)
    assert network(topology, topology.hosts) == (
        f"topology: [ {shape} ]\nnpus_count: [ {count} ]\nbandwidth: [ 1 ]  # GB/s\nlatency: [ {latency} ]  # ns\n"
    )


def test_other_networks_have_none() -> None:
    for text in ("fat_tree(k=4)", "bcube(n=2,k=2)", "patch_panel(servers=8,degree=2,rings=[3])"):
        topology = build(text, rate_bps=8_000_000_000, delay_s=0.0)
        with pytest.raises(TopologyError, match="neither by one switch nor in a ring by their numbers"):
            network(topology, topology.hosts)
    ring = build("patch_panel(servers=4,degree=2,rings=[1])", rate_bps=1_000_000, delay_s=0.0)
    with pytest.raises(TopologyError, match="neither"):
        network(ring, [0, 2, 1, 3])
