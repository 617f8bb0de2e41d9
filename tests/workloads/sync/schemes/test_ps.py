"""The parameter server's stars."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from topologies.model import Topology
from workloads.sync.cost import cost
from workloads.sync.schemes.ps import ps

Build = Callable[..., Topology]


def test_by_chunk_one_star_at_each_server(topology: Build) -> None:
    forest = ps(topology("star(hosts=3)"), [10, 20])
    assert forest.reduce.tolist() == [[-1, 0, 0, -2], [1, -1, 1, -2], [2, 2, -1, -2]]
    assert forest.broadcast.tolist() == forest.reduce.tolist()
    assert forest.share.tolist() == [1, 1, 1]
    assert not forest.aligned


def test_by_tensor_round_robin_over_the_servers(topology: Build) -> None:
    forest = ps(topology("star(hosts=2)"), [10, 20, 30], place="tensor")
    assert forest.reduce.tolist() == [[-1, 0, -2], [1, -1, -2], [-1, 0, -2]]
    assert forest.share.tolist() == [10, 20, 30]
    assert forest.aligned


def test_whole_tensors_make_one_server_the_bottleneck(topology: Build) -> None:
    """One tensor with 9 of 10 floats: its server receives from and sends to N - 1 workers, 0.9 T_F each."""
    net = topology("star(hosts=4)")
    t_f = 8e6 * 8 / 1e9
    spread = cost(ps(net, [1, 9]), net, 8e6)
    whole = cost(ps(net, [1, 9], place="tensor"), net, 8e6)
    assert spread.bound_s() == pytest.approx(2 * 3 / 4 * t_f)
    assert whole.bound_s() == pytest.approx((0.9 * 3 + 0.1) * t_f)
    assert {net.nodes[node].name for link in whole.busiest() for node in (net.head(link), net.tail(link))} == {
        "h1",
        "s0",
    }
    assert whole.wire_bytes == pytest.approx(spread.wire_bytes)
