"""Who sends how much to whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import flows, neighbours, pairs
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build


def test_two_servers_of_unequal_tensors(topology: Callable[..., Topology]) -> None:
    forest = build("ps(place=tensor)", topology("star(hosts=2)"), [1, 3])
    assert list(flows(forest, 400.0)) == [(0, 1, 400.0), (1, 0, 400.0)]


def test_ring(topology: Callable[..., Topology]) -> None:
    traffic = flows(build("ring", topology("star(hosts=4)"), []), 400.0)
    assert traffic.senders.tolist() == [0, 1, 2, 3]
    assert traffic.receivers.tolist() == [1, 2, 3, 0]
    assert traffic.count_bytes == pytest.approx(600.0)


@given(st.integers(0, 2**32), st.integers(1, 8))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_against_edges_one_by_one(random_forest: Callable[..., Forest], seed: int, hosts: int) -> None:
    forest = random_forest(seed, hosts, hosts, 3)
    expected: dict[tuple[int, int], float] = {}
    for c in range(3):
        share = 1000.0 * forest.share[c] / forest.share.sum()
        for node in range(hosts):
            up, down = int(forest.reduce[c, node]), int(forest.broadcast[c, node])
            if up >= 0:
                expected[node, up] = expected.get((node, up), 0.0) + share
            if down >= 0:
                expected[down, node] = expected.get((down, node), 0.0) + share
    traffic = flows(forest, 1000.0)
    assert pairs(forest) == sorted(expected)
    assert {(src, dst): count for src, dst, count in traffic} == pytest.approx(expected)
    for node in range(hosts):
        near = {a for a, b in expected if b == node} | {b for a, b in expected if a == node}
        assert neighbours(forest, node) == sorted(near)
