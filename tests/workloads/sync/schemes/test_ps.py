"""The parameter server's stars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.longest_first import longest_first
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import ROOT
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.schemes.ps import ps
from testbed.workloads.sync.verify import verify

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


@pytest.mark.parametrize(
    ("form", "workers", "servers", "wire", "bound"),
    [
        ("ps(servers=1)", 8, [0], 2 * 7, 7),  # CC: everything in and out of one worker
        ("ps", 8, list(range(8)), 2 * 7, 2 * 7 / 8),  # CS
        ("ps(colocated=false)", 7, [7], 2 * 7, 7),  # NCC
        ("ps(colocated=false,servers=4)", 4, [4, 5, 6, 7], 2 * 4, 1),  # NCS
    ],
)
def test_the_four_forms(
    topology: Build, form: str, workers: int, servers: list[int], wire: float, bound: float
) -> None:
    """Bytes in gradients, GST in T_F: a server takes in workers / servers gradients, less its own where colocated."""
    net = topology("star(hosts=8)")
    forest = build(form, net, [])
    verify(forest, net)
    found = cost(forest, net, 1e9 / 8)
    assert forest.workers == tuple(range(workers))
    assert np.argmax(forest.reduce == ROOT, axis=1).tolist() == servers
    assert found.wire_bytes * 8 / 1e9 == pytest.approx(wire)
    assert found.bound_s() == pytest.approx(bound)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_servers_of_their_own_halve_the_bytes_of_each_interface(topology: Build, count: int) -> None:
    """PHub thesis section 1.1.5: colocated and sharded, each NIC carries about twice what it does where as many
    servers as workers have hosts of their own."""
    together, apart = topology(f"star(hosts={count})"), topology(f"star(hosts={2 * count})")
    colocated = cost(build("ps", together, []), together, 1e6)
    own = cost(build(f"ps(colocated=false,servers={count})", apart, []), apart, 1e6)
    assert own.bound_s() / colocated.bound_s() == pytest.approx(count / (2 * (count - 1)))


def test_some_of_the_workers_serve_spread_evenly(topology: Build) -> None:
    forest = build("ps(servers=3)", topology("star(hosts=8)"), [])
    assert np.argmax(forest.reduce == ROOT, axis=1).tolist() == [0, 2, 5]


def test_the_longest_first(topology: Build) -> None:
    """Graham's example of sizes that round-robin places badly: 7 and 6 and 5 at one server."""
    net = topology("star(hosts=3)")
    sizes = [7, 1, 1, 6, 2, 2, 5, 4, 2]
    forest = build("ps(place=lpt)", net, sizes)
    verify(forest, net)
    roots = np.argmax(forest.reduce == ROOT, axis=1)
    assert np.bincount(roots, weights=sizes).tolist() == [10, 10, 10]
    assert roots[[0, 3, 6]].tolist() == [0, 1, 2]
    assert np.bincount(np.arange(9) % 3, weights=sizes).tolist() == [18, 7, 5]
    assert forest.share.tolist() == sizes
    assert forest.aligned


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 3))
@settings(max_examples=50)
def test_longest_first_is_within_graham_s_bound_of_the_best(sizes: list[int], bins: int) -> None:
    def fullest(at: Sequence[int]) -> float:
        return float(max(np.bincount(at, weights=sizes, minlength=bins)))

    best = min(fullest(choice) for choice in product(range(bins), repeat=len(sizes)))
    assert best <= fullest(longest_first(sizes, bins)) <= best * (4 / 3 - 1 / (3 * bins)) + 1e-9


@pytest.mark.parametrize(("workers", "nics", "bound"), [(8, 1, 8), (8, 4, 2), (8, 8, 1), (8, 3, 3), (2, 4, 1)])
def test_a_pbox_with_several_nics(topology: Build, workers: int, nics: int, bound: float) -> None:
    """Workers divide among the NICs, so the fullest NIC carries ceil(workers / nics) gradients; a NIC without a worker
    idles, for one worker's keys are not spread over several."""
    net = topology(f"star(hosts={workers + 1},server_nics={nics})")
    forest = build("ps(colocated=false)", net, [])
    verify(forest, net)
    assert cost(forest, net, 1e9 / 8).bound_s() == pytest.approx(bound)


@pytest.mark.parametrize(
    ("form", "network", "text"),
    [
        (
            "ps(servers=5)",
            "star(hosts=4)",
            "ps has 5 servers for the 4 hosts of star(hosts=4)\n  fix: give servers 1 to 4, one a worker",
        ),
        (
            "ps(colocated=false,servers=4)",
            "star(hosts=4)",
            "ps has 4 servers for the 4 hosts of star(hosts=4)\n  fix: give servers 1 to 3, with a host left to work",
        ),
        (
            "ps(servers=-1)",
            "star(hosts=2)",
            "ps has -1 servers for the 2 hosts of star(hosts=2)\n  fix: give servers 1 to 2, one a worker",
        ),
        (
            "ps(colocated=false)",
            "star(hosts=1)",
            "ps has 1 servers for the 1 hosts of star(hosts=1)\n  fix: take a network of two hosts or more",
        ),
        (
            "ps(place=lpt)",
            "star(hosts=2)",
            "ps(place=lpt) needs the sizes of the tensors, and there are none\n  fix: use ps",
        ),
    ],
)
def test_texts(topology: Build, form: str, network: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(form, topology(network), [])
    assert str(caught.value) == text
