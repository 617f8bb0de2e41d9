"""A forest counts its messages in simulated time without making them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.topologies.model import Topology
from testbed.workloads.kinds.forest.kind import ForestSimulation
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.messages import messages
from testbed.workloads.sync.schemes import build

FLOATS, CHUNK_BYTES = 10_000, 4096


@pytest.mark.parametrize(
    ("network", "scheme"),
    [
        ("star(hosts=5)", "ps"),
        ("star(hosts=6)", "halving_doubling"),
        ("bcube(n=3,k=2)", "bml"),
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)", "rina"),
    ],
)
def test_messages_are_counted_without_making_them(topology: Callable[..., Topology], network: str, scheme: str) -> None:
    forest = build(scheme, topology(network), [FLOATS])
    gradient = Gradient((4_000, 6_000), (range(1), range(1, 2)), ((0, 4_000), (4_000, FLOATS)))
    made = sum(1 for _ in messages(forest, cut(forest, FLOATS, gradient.buckets, CHUNK_BYTES)))
    assert ForestSimulation().messages(forest, (gradient, CHUNK_BYTES)) == made > 100
