"""How large chunks are where nobody asks for a size."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build as build_topology
from testbed.workloads.sync.chunk_size import CHUNK_BYTES, SMALL_BYTES, shortened, suiting
from testbed.workloads.sync.schemes import build

LEAST, MOST = CHUNK_BYTES
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)"


@pytest.mark.parametrize(
    ("rate_bps", "chunk_bytes"), [(1e6, LEAST), (200e6, LEAST), (400e6, 250_000), (800e6, 500_000), (1e10, MOST)]
)
def test_a_link_carries_a_chunk_in_5_ms_within_limits(rate_bps: float, chunk_bytes: int) -> None:
    assert suiting(rate_bps) == chunk_bytes


@pytest.mark.parametrize(
    ("scheme", "topology", "nbytes", "largest", "chunk_bytes"),
    [
        ("ring", "star(hosts=8)", 10**6, MOST, MOST),  # whole classes are no longer than these
        ("ps", "star(hosts=8)", 10**6, MOST, MOST),
        ("halving_doubling", "star(hosts=8)", 20_000_000, MOST, 20_000_000 // 64 // 8 * 8),  # of 8 classes, eight each
        ("halving_doubling", "star(hosts=8)", 10**6, MOST, LEAST),
        ("halving_doubling", "star(hosts=8)", 10**6, LEAST, LEAST),
        ("bml", "bcube(n=3,k=2)", 10**9, MOST, MOST),
        ("ps(servers=1)", "star(hosts=8)", 20_000_000, MOST, 200_000),  # 1 % of it: its links wait for a step
        ("atp", RACKS, 25_000_000, LEAST, 25_000_000 // 700 // 8 * 8),  # seven steps
        ("atp", RACKS, 10**6, LEAST, SMALL_BYTES),
        ("atp", RACKS, 10**6, MOST, MOST // 4),
        ("atp", RACKS, 10**6, 1000, 1000),  # never larger
    ],
)
def test_chunks_are_smaller_where_nodes_wait(
    scheme: str, topology: str, nbytes: int, largest: int, chunk_bytes: int
) -> None:
    forest = build(scheme, build_topology(topology, rate_bps=10**9), [])
    assert shortened(forest, nbytes, largest) == chunk_bytes
