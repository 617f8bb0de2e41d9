"""Which forests an asynchronous parameter server can run, and what its updates cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds import verify
from testbed.workloads.kinds.asynchronous.plan import Asynchronous, cost, replicas, servers
from testbed.workloads.sync.cost import Shaper
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]
GRADIENT_BYTES = 10**8
T_F = GRADIENT_BYTES * 8 / 10**9


@pytest.mark.parametrize(
    ("scheme", "problem"),
    [
        (
            "ps(place=tensor)",
            "scheme ps(place=tensor) is asynchronous, so each server has one equal part of the weights, of floats",
        ),
        ("ps", "it is asynchronous, and not every worker sends straight to h0, to serve only"),
        ("ps(servers=1)", "it is asynchronous, and not every worker sends straight to h0, to serve only"),
        ("tree(fanout=2)", "it is asynchronous, and not every worker sends straight to h0, to serve only"),
    ],
)
def test_asynchronous_forests_are_a_server_and_its_workers(topology: Build, scheme: str, problem: str) -> None:
    net = topology("star(hosts=3)")
    forest = replace(build(scheme, net, [5, 6, 7, 8]), run_by=Asynchronous(None))
    with pytest.raises(SchemeError) as caught:
        verify(forest, net)
    assert caught.value.problem.endswith(problem)


def test_an_update_goes_there_and_back_alone(topology: Build) -> None:
    """Twice the gradient's time; and for one of each worker, the server's link is busy as long as ps's."""
    net = topology("star(hosts=5)")
    found, ps = (
        kinds.cost(build(scheme, net, []), net, GRADIENT_BYTES) for scheme in ("async_ps", "ps(colocated=false)")
    )
    assert found.bound_s() == pytest.approx(2 * T_F)
    assert found.bound_s(Shaper(goodput=0.5)) == pytest.approx(4 * T_F)
    assert found.round_s() == pytest.approx(4 * T_F) == ps.bound_s() == ps.round_s()
    assert np.array_equal(found.link_bytes, ps.link_bytes)


def test_an_updates_way_is_as_fast_as_its_slowest_link(topology: Build) -> None:
    """A PBox's fourth of the workers have each a NIC of it; uplinks of a rack are slower than hosts' links."""
    net = topology("spine_leaf(racks=2,hosts_per_rack=4,spines=1,oversubscription=8)")
    found = cost(build("async_ps", net, []), net, GRADIENT_BYTES)
    assert found.bound_s() == pytest.approx(2 * T_F)  # of those in the server's rack


def test_workers_that_make_more_updates_send_more(topology: Build) -> None:
    net = topology("star(hosts=4)")
    forest = build("async_ps", net, [])
    found = cost(forest, net, GRADIENT_BYTES, [2.0, 0.5, 0.5])
    assert found.wire_bytes == pytest.approx(6 * GRADIENT_BYTES)
    assert found.link_bytes.reshape(4, 2) / GRADIENT_BYTES == pytest.approx(
        np.array([[2, 2], [0.5, 0.5], [0.5, 0.5], [3, 3]])
    )


def test_a_part_goes_there_and_back_while_others_come(topology: Build) -> None:
    """Of two parts the first can go back while the second comes: one and a half times the gradient's time. Each
    server's link carries its half of all, the workers' links as much as with one server."""
    net = topology("star(hosts=6)")
    found, ps = (
        kinds.cost(build(scheme, net, []), net, GRADIENT_BYTES)
        for scheme in ("async_ps(servers=2)", "ps(colocated=false,servers=2)")
    )
    assert found.bound_s() == pytest.approx(1.5 * T_F)
    assert found.bound_s(Shaper(goodput=0.5)) == pytest.approx(3 * T_F)
    assert found.round_s() == pytest.approx(2 * T_F)
    assert np.array_equal(found.link_bytes, ps.link_bytes)


def test_the_slowest_servers_link_bounds_an_update(topology: Build) -> None:
    """A server at a tenth of the rate: its half goes there and back at that rate, 5 times the gradient's time each."""
    net = topology("star(hosts=4)")
    slow = [replace(link, rate_bps=10**8) if net.nodes[link.a].name == "h3" else link for link in net.links]
    found = kinds.cost(build("async_ps(servers=2)", net, []), replace(net, links=tuple(slow)), GRADIENT_BYTES)
    assert found.bound_s() == pytest.approx(10 * T_F)


def test_a_replica_has_an_update_before_weights_go_back(topology: Build) -> None:
    """Three ways one after the other; the server's link carries each update on besides the weights."""
    net = topology("star(hosts=5)")
    forest = build("async_ps(replication=chain)", net, [])
    verify(forest, net)
    assert (forest.workers, kinds.of(forest).pairs(forest)[-2:]) == ((0, 1, 2), [(3, 4), (4, 3)])
    assert [one.name for one in kinds.of(forest).processes(forest)] == ["h0", "h1", "h2", "h3", "h4"]
    found = kinds.cost(forest, net, GRADIENT_BYTES)
    assert found.bound_s() == pytest.approx(3 * T_F)
    assert found.rounds == 3
    assert found.round_s() == pytest.approx(6 * T_F)
    assert found.link_bytes.reshape(5, 2)[3:] / GRADIENT_BYTES == pytest.approx(np.array([[6, 3], [0, 3]]))
    made = cost(forest, net, GRADIENT_BYTES, [2.0, 1.0, 0.5])
    assert made.link_bytes.reshape(5, 2)[3:] / GRADIENT_BYTES == pytest.approx(np.array([[7, 3.5], [0, 3.5]]))


def test_each_of_two_servers_has_a_replica(topology: Build) -> None:
    net = topology("star(hosts=6)")
    forest = build("ssp(servers=2,replication=chain)", net, [])
    verify(forest, net)
    assert (servers(forest), replicas(forest)) == ([2, 3], {2: 4, 3: 5})
    found = kinds.cost(forest, net, GRADIENT_BYTES)
    assert found.bound_s() == pytest.approx(2 * T_F)  # all parts there, one on, one back
    assert found.link_bytes.reshape(6, 2)[4:] / GRADIENT_BYTES == pytest.approx(np.array([[0, 1], [0, 1]]))


@pytest.mark.parametrize("nodes", [(0,), (3,), (4, 4), (4, 5)])
def test_replicas_are_hosts_of_their_own(topology: Build, nodes: tuple[int, ...]) -> None:
    net = topology("star(hosts=5)")
    forest = replace(build("async_ps(replication=chain)", net, []), run_by=Asynchronous(None, nodes))
    with pytest.raises(SchemeError, match=r"has 1 servers and replicas at nodes \d"):
        verify(forest, net)


@pytest.mark.parametrize("scheme", ["async_ps", "ssp"])
@pytest.mark.parametrize(
    ("hosts", "servers", "floats", "problem", "fix"),
    [
        (4, 0, [9], "{} has 0 servers for the 4 hosts of star(hosts=4)", "1 to 3, with a host left to work"),
        (4, 4, [9], "{} has 4 servers for the 4 hosts of star(hosts=4)", "1 to 3, with a host left to work"),
        (5, 3, [1, 1], "{} has 3 servers for a model of 2 floats", "1 to 2, so that each has a part of the weights"),
    ],
)
def test_servers_that_cannot_be_are_refused(
    topology: Build, scheme: str, hosts: int, servers: int, floats: list[int], problem: str, fix: str
) -> None:
    with pytest.raises(SchemeError) as caught:
        build(f"{scheme}(servers={servers})", topology(f"star(hosts={hosts})"), floats)
    assert (caught.value.problem, caught.value.fix) == (problem.format(scheme), f"give servers {fix}")
