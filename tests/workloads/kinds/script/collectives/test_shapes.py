"""How large the chunks of a call are."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build as build_topology
from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.kinds.script.collectives.shapes import shape
from testbed.workloads.sync.chunk_size import SMALL_BYTES
from testbed.workloads.sync.schemes import build

ADDING = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)"


@pytest.mark.parametrize(
    ("scheme", "topology", "call_bytes", "chunk_bytes"),
    [
        ("ring", "star(hosts=8)", 25_000_000, 128 * 1024),  # its links never wait
        ("atp", ADDING, 100_000_000, 128 * 1024),
        ("atp", ADDING, 25_000_000, 25_000_000 // 700),  # seven steps
        ("atp", ADDING, 4_000_000, SMALL_BYTES),
    ],
)
def test_chunks_are_smaller_where_links_wait_for_them(
    scheme: str, topology: str, call_bytes: int, chunk_bytes: int
) -> None:
    forest = build(scheme, build_topology(topology, rate_bps=10**9), [])
    call = Call(What.ALLREDUCE, "float32", call_bytes // 4, "sum")
    for node in forest.workers[0], len(forest.nodes) - 1:
        table = shape(forest, call, 128 * 1024, node).table
        largest = 4 * int((table.stop - table.start).max())
        assert 0.9 * chunk_bytes < largest <= chunk_bytes


def test_chunks_are_never_larger_than_asked_for() -> None:
    forest = build("atp", build_topology(ADDING, rate_bps=10**9), [])
    table = shape(forest, Call(What.ALLREDUCE, "float32", 10**6, "sum"), 1024, 0).table
    assert int((table.stop - table.start).max()) == 256
