"""A synchronisation in simulated time: the worked examples, bytes as theory has them, and no time below its bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import synchronisation
from testbed.workloads.sync.chunks import ChunkTable, cut, whole
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build

FLOATS, RATE_BPS = 25_000_000, 10**10
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=1{})"


def times(
    scheme: str, topology: Topology, chunks: ChunkTable | None = None, ready_s: NDArray[np.float64] | None = None
) -> dict[int, float]:
    """When each worker has all sums (s)."""
    forest = build(scheme, topology, [FLOATS])
    told = list(Player(Arena(topology), synchronisation(forest, chunks or whole(forest, FLOATS))).told(ready_s))
    assert sorted(node for _, node in told) == sorted(forest.workers)  # each once
    return {node: at_s for at_s, node in told}


@pytest.mark.parametrize(
    ("network", "scheme", "expected_s"),
    [
        ("star(hosts=4)", "ring", 0.12),
        ("star(hosts=128)", "ring", 0.158750),
        ("star(hosts=128)", "ps", 0.158750),
        ("bcube(n=9,k=2)", "bml", 0.079012),
    ],
)
def test_100_megabytes_at_10_gbits_take_the_times_of_the_prototype(
    topology: Callable[..., Topology], network: str, scheme: str, expected_s: float
) -> None:
    assert max(times(scheme, topology(network, RATE_BPS)).values()) == pytest.approx(expected_s, abs=1e-6)


def test_a_delay_of_a_millisecond_costs_six_rounds_over_two_links_each() -> None:
    star = build_topology("star(hosts=4)", rate_bps=RATE_BPS, delay_s=0.001)
    assert max(times("ring", star).values()) == pytest.approx(0.132)


def test_two_buckets_overlap_with_computation(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=4)", RATE_BPS)
    chunks = cut(build("ring", star, [FLOATS]), FLOATS, [(0, FLOATS // 2), (FLOATS // 2, FLOATS)], 4 * FLOATS)
    ready_s = np.tile([0.15, 0.3], (4, 1))
    assert max(times("ring", star, chunks, ready_s).values()) == pytest.approx(0.36)


def test_a_parameter_server_waits_for_the_last_gradient(topology: Callable[..., Topology]) -> None:
    """Worker 4's eight parts leave together, and so do the nine sums; only its own class need not wait for its link."""
    ready_s = np.zeros((9, 1))
    ready_s[4] = 0.2
    star = topology("star(hosts=9)", RATE_BPS)
    one_way_s = 8 / 9 * 0.08
    assert max(times("ps", star, ready_s=ready_s).values()) == pytest.approx(0.2 + 2 * one_way_s, rel=1e-6)


@pytest.mark.parametrize(
    ("network", "scheme"),
    [
        ("star(hosts=9)", "ps"),
        ("star(hosts=9)", "halving_doubling"),
        ("star(hosts=8)", "double_binary_tree"),
        ("star(hosts=8)", "tree"),
        ("bcube(n=3,k=2)", "bml"),
        (RACKS.format(""), "hierarchical_ps"),
        (RACKS.format(",ina=all"), "rina(slots=12)"),
        (RACKS.format(",ina=all"), "switchml(slots=6)"),
    ],
)
def test_links_carry_the_bytes_of_theory_in_no_less_than_the_bound(
    topology: Callable[..., Topology], network: str, scheme: str
) -> None:
    made = topology(network)
    forest = build(scheme, made, [FLOATS])
    chunks = cut(forest, FLOATS, [(0, FLOATS // 3), (FLOATS // 3, FLOATS)], 4_000_000)
    exponents = forest.fixed is not None and forest.fixed.scale is None

    def play() -> tuple[list[tuple[float, int]], Player]:
        played = Player(Arena(made), synchronisation(forest, chunks))
        return list(played.told(np.full((len(forest.workers), 2), 0.1))), played

    told, played = play()
    theory = cost(forest, made, 4 * FLOATS)
    assert len(told) == len(forest.workers)
    assert played.arena.carried_bytes() == pytest.approx(theory.link_bytes, rel=1e-4 if exponents else 1e-5, abs=1)
    assert 0.1 + theory.bound_s() * (1 - 1e-5) <= max(at_s for at_s, _ in told) < 0.1 + 3 * theory.bound_s()
    assert play()[0] == told  # the same, to the last bit
