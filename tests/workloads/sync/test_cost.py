"""The cost model against the papers' formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import Releases, Shaper, cost, cost_of_flows, depth, goodput
from testbed.workloads.sync.flows import Flows
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]
GRADIENT_BYTES = 12.5e6
T_F = GRADIENT_BYTES * 8 / 1e9


@pytest.mark.parametrize("hosts", [2, 4, 8, 9, 16])
@pytest.mark.parametrize("scheme", ["ps", "ring"])
def test_ps_and_ring_on_a_star(topology: Build, scheme: str, hosts: int) -> None:
    """2(N-1)/N x T_F (BML section 2)."""
    net = topology(f"star(hosts={hosts})")
    found = cost(build(scheme, net, []), net, GRADIENT_BYTES)
    assert found.bound_s() == pytest.approx(2 * (hosts - 1) / hosts * T_F)
    assert found.wire_bytes == pytest.approx(2 * (hosts - 1) * GRADIENT_BYTES)
    assert found.rounds == (2 if scheme == "ps" else 2 * (hosts - 1))
    assert len(found.busiest()) == 2 * hosts


@pytest.mark.parametrize(("n", "k"), [(3, 1), (3, 2), (4, 2), (2, 3), (3, 3), (8, 2)])
def test_bml_on_bcube(topology: Build, n: int, k: int) -> None:
    """2(N-1)/(kN) x T_F in 2k steps, with every link of the network equally busy (BML section 3.2)."""
    net = topology(f"bcube(n={n},k={k})")
    found = cost(build("bml", net, []), net, GRADIENT_BYTES)
    count = n**k
    assert found.bound_s() == pytest.approx(2 * (count - 1) / (k * count) * T_F)
    assert found.rounds == 2 * k
    assert found.link_s == pytest.approx(np.full(2 * len(net.links), found.bound_s()))


def test_bml_is_half_of_ps_on_the_quickstarts_networks(topology: Build) -> None:
    tree, cube = topology("fat_tree(k=4,hosts=9)"), topology("bcube(n=3,k=2)")
    ps = cost(build("ps", tree, []), tree, GRADIENT_BYTES)
    bml = cost(build("bml", cube, []), cube, GRADIENT_BYTES)
    assert bml.bound_s() / ps.bound_s() == pytest.approx(0.5)


def test_ps_and_ring_on_a_fat_tree(topology: Build) -> None:
    """A fat-tree is non-blocking: 2(N-1)/N x T_F; only the last host of a rack sends around the ring out of it."""
    net = topology("fat_tree(k=4)")
    ps = cost(build("ps", net, []), net, GRADIENT_BYTES)
    ring = cost(build("ring", net, []), net, GRADIENT_BYTES)
    assert ps.bound_s() == pytest.approx(2 * 15 / 16 * T_F)
    assert ring.bound_s() == pytest.approx(2 * 15 / 16 * T_F)
    assert ring.cross_rack_bytes == pytest.approx(8 * 2 * 15 / 16 * GRADIENT_BYTES)


NICS = "star(hosts=5,server_nics=2,routing=every_nic)"


def test_every_nic_of_a_server_carries_the_same(topology: Build) -> None:
    net = topology(NICS)
    found = cost(build("ps(colocated=false)", net, []), net, GRADIENT_BYTES).link_bytes
    assert found.reshape(-1, 2)[[4, 5]] == pytest.approx(np.full((2, 2), 4 * GRADIENT_BYTES / 2))


def test_a_plan_says_which_bytes_take_which_connection(topology: Build) -> None:
    net, sent = topology(NICS), [(0, 4, 7.0, 0), (0, 4, 3.0, 1), (4, 1, 5.0, 1)]
    src, dst, count, connection = map(np.array, zip(*sent, strict=True))
    found = cost_of_flows(Flows(src, dst, count, connection), net, rounds=1)
    assert found.wire_bytes == 15
    by_link = {link: count for link, count in enumerate(found.link_bytes) if count}
    assert by_link == {0: 10.0, 2 * 4 + 1: 7.0, 2 * 5 + 1: 3.0, 2 * 5: 5.0, 2 * 1 + 1: 5.0}


def test_goodput_is_what_the_headers_leave() -> None:
    assert goodput(1500) == pytest.approx(1448 / 1514)
    assert goodput(9000) == pytest.approx(8948 / 9014)


def test_the_bound_grows_by_the_goodput(topology: Build) -> None:
    net = topology("star(hosts=2)")
    found = cost(build("ring", net, []), net, GRADIENT_BYTES)
    assert found.bound_s(Shaper(goodput=0.5)) == pytest.approx(2 * found.bound_s())


def test_one_worker_sends_nothing(topology: Build) -> None:
    net = topology("star(hosts=1)")
    found = cost(build("ring", net, []), net, GRADIENT_BYTES)
    assert (found.rounds, found.wire_bytes, found.bound_s(), found.busiest()) == (0, 0.0, 0.0, [])


def test_depth_by_doubling() -> None:
    chain = [-1, 0, 1, 2, 3, 4, 5]
    star = [-1, 0, 0, 0, 0, 0, -2]
    alone = [-2, -2, -1, -2, -2, -2, -2]
    assert depth(np.array([chain, star, alone], np.int32)).tolist() == [6, 1, 0]


@pytest.mark.parametrize(
    ("network", "scheme"),
    [
        ("star(hosts=4)", "ring"),
        ("star(hosts=4)", "ps"),
        ("spine_leaf(racks=2,hosts_per_rack=2,spines=2)", "ps"),
        ("bcube(n=2,k=2)", "bml"),
    ],
)
def test_a_partial_sum_leaves_when_all_workers_in_it_are_ready(topology: Build, network: str, scheme: str) -> None:
    """Against a walk up every tree, contribution by contribution."""
    net = topology(network)
    forest = build(scheme, net, [])
    ready_s = {node: float(10 * i % 7) for i, node in enumerate(forest.workers)}
    whole = cost(forest, net, GRADIENT_BYTES).link_bytes
    found = Releases(forest, net, GRADIENT_BYTES)
    edges_s = found.edges_s(ready_s)
    edges = list(zip(*np.nonzero(forest.reduce >= 0), strict=True))

    def contributors(one: int, node: int) -> set[int]:
        below = [child for child in range(len(forest.nodes)) if forest.reduce[one, child] == node]
        own = {node} & set(forest.workers)
        return own.union(*(contributors(one, child) for child in below))

    for (one, src), release_s in zip(edges, edges_s, strict=True):
        assert release_s == max(ready_s[node] for node in contributors(one, src))
    assert found.link_bytes(edges_s, min(ready_s.values())) == pytest.approx(whole)
    assert (found.link_bytes(edges_s, max(ready_s.values())) <= whole + 1e-6).all()


def test_a_rings_last_worker_has_all_of_its_own_transfers_before_it(topology: Build) -> None:
    net = topology("star(hosts=4)")
    forest = build("ring", net, [])
    found = Releases(forest, net, GRADIENT_BYTES)
    edges_s = found.edges_s({node: float(node == 2) for node in forest.workers})
    assert found.link_bytes(edges_s, 1.0).max() == pytest.approx(2 * 3 / 4 * GRADIENT_BYTES)


def test_an_idle_link_lets_a_bucket_and_a_packet_pass_at_once() -> None:
    links = Shaper(goodput=0.5, bucket_s=0.001, bucket_bytes=3000, packet_bytes=60_000)
    count, rate_bps = np.array([1e6, 1e6, 30_000.0]), np.array([8e6, 80e6, 8e6])
    assert links.at_rate_bytes(count, rate_bps) == pytest.approx([2e6 - 63_000, 2e6 - 70_000, 0.0])
    assert links.least_s(count, rate_bps) == pytest.approx([1.937, 0.193, 0.0])
