"""Costs of orders: worked examples of eight hosts in two racks and of forests on a cloud; pairs of each formula."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from testbed.base.errors import SpecError
from testbed.topologies.build import build as build_topology
from testbed.topologies.call import parse
from testbed.topologies.cloud import places
from testbed.topologies.part import Part
from testbed.workloads import kinds
from testbed.workloads.ranks.costs import COSTS, Distances, Floats, Priced, build, longest_way
from testbed.workloads.sync.schemes import build_plan

RACKS = "cloud(rows=1,racks=4,hosts_per_rack=4,oversubscription=4)"
RATE_BPS = 10**9
EXAMPLES = {
    "ring": (12, 24, 12),
    "halving_doubling": (5, 9, 5),
    "double_binary_tree": (5, 9, 6),
    "bcube(base=4)": (4, 6, 4),
}
"""Least and most over all orders of eight hosts in two racks, and that in order of numbers."""


def racks(sizes: list[int], within: float = 1, between: float = 3) -> Floats:
    """Distances between hosts of racks of these sizes, by number."""
    rack = np.repeat(range(len(sizes)), sizes)
    found = np.where(rack[:, None] == rack, within, between).astype(float)
    np.fill_diagonal(found, 0)
    return found


def priced(cost: str, fixed: Floats, per_byte: Floats | None = None, size_bytes: float = 0) -> Priced:
    return Priced(build(parse(cost, "ring"), len(fixed)), Distances.larger(fixed, per_byte), size_bytes)


@pytest.mark.parametrize("cost", EXAMPLES)
def test_eight_hosts_in_two_racks(cost: str) -> None:
    one = priced(cost, racks([4, 4]))
    values = one.values(np.array([*itertools.permutations(range(8))]))
    assert (values.min(), values.max(), one.value(range(8))) == EXAMPLES[cost]


@pytest.mark.parametrize("which", ["low", "high"])
def test_latency_alone_does_not_tell_in_which_round_a_rack_is_left(which: str) -> None:
    """Racks in the lowest or the highest bit of ranks cost 5 each, while bytes between racks differ fourfold."""
    order = [0, 4, 1, 5, 2, 6, 3, 7] if which == "low" else [*range(8)]
    assert priced("halving_doubling", racks([4, 4])).value(order) == 5
    bytes_alone = priced("halving_doubling", np.zeros((8, 8)), racks([4, 4], 0, 1), 1.0)
    assert bytes_alone.value(order) == (1 / 2 if which == "low" else 1 / 8)


def orders() -> tuple[list[int], list[int]]:
    """Hosts of the cloud, by rank: rank r in rack r div 4, and in rack (r mod 4 + r div 4) mod 4."""
    groups = places(build_topology(RACKS, rate_bps=RATE_BPS)).groups
    near = [groups[rank // 4][rank % 4] for rank in range(16)]
    left = [list(group) for group in groups]
    return near, [left[(rank % 4 + rank // 4) % 4].pop() for rank in range(16)]


@pytest.mark.parametrize(
    ("scheme", "least", "most"),
    [
        *((scheme, 1.875, 7.5) for scheme in ("ring", "gloo", "halving_doubling", "bcube(base=4)")),
        ("double_binary_tree", 3.0, 8.0),
        ("ps", 6.0, 6.0),
    ],
)
def test_bounds_of_forests_on_a_cloud(scheme: str, least: float, most: float) -> None:
    """In M/B: the bytes of the gradient over the rate of a host."""
    topology = build_topology(RACKS, rate_bps=RATE_BPS)
    bounds = []
    for order in orders():
        part = Part(topology, tuple(order))
        plan = kinds.placed(build_plan(scheme, part.topology, [10**6]), part)
        kinds.verify(plan, topology)
        assert list(plan.workers) == order
        bounds.append(kinds.cost(plan, topology, 4e6).bound_s() / (8 * 4e6 / RATE_BPS))
    assert bounds == pytest.approx([least, most])


def test_lightgbm_on_a_cloud() -> None:
    """S / B for rounds one after another: an uplink of B carries the bytes of the four hosts of its rack."""
    hosts = racks([4, 4, 4, 4], 1, 4)
    one = priced("lightgbm", np.zeros_like(hosts), hosts, 1.0)
    near, far = orders()
    rack = places(build_topology(RACKS, rate_bps=RATE_BPS)).racks
    by_number = {host: rack[host] * 4 + [*np.flatnonzero(np.array(rack) == rack[host])].index(host) for host in near}
    strided = [near[4 * (rank % 4) + rank // 4] for rank in range(16)]  # distances 8 and 4 within racks
    values = [one.value([by_number[host] for host in order]) for order in (strided, far, near)]
    assert values == pytest.approx([1.5, 3.75, 3.1875])


def test_the_larger_direction_counts() -> None:
    assert priced("ring", np.array([[0, 1, 2], [5, 0, 1], [2, 1, 0]], dtype=float)).value([0, 1, 2]) == 5 + 1 + 2


def test_bcube_has_the_rest_in_its_last_digit() -> None:
    cost = build(parse("bcube(base=4)", ""), 8)
    assert [len(group[group >= 0]) for group in cost.groups] == [12, 4]
    assert sorted(map(tuple, cost.pairs[cost.groups[1][:4]].tolist())) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert np.unique(cost.share).tolist() == [1 / 8, 1 / 4]


def test_children_of_the_thesis_are_roots_of_halves() -> None:
    """(3i + j)/2 - 1 and (i + 3j)/2 + 1 are 2 and 11 for ranks 0 to 7."""
    cost = build(parse("double_binary_tree", ""), 8)
    pairs = {tuple(pair) for pair in cost.pairs.tolist()}
    assert {(3, 1), (3, 5), (5, 6), (6, 7)} <= pairs
    assert {(2, 0), (2, 4)} <= pairs  # of the tree over ranks less one
    assert set(cost.share.tolist()) == {0.5}


@pytest.mark.parametrize("ranks", [2, 3, 5, 12, 16])
@pytest.mark.parametrize("cost", ["ring", "double_binary_tree", "bcube(base=4)"])
def test_any_number_of_ranks(cost: str, ranks: int) -> None:
    made = build(parse(cost, ""), ranks)
    assert set(made.pairs.ravel().tolist()) == {*range(ranks)}
    assert Priced(made, Distances(racks([ranks]))).value(range(ranks)) > 0


@pytest.mark.parametrize("cost", ["halving_doubling", "lightgbm"])
def test_a_power_of_two_is_needed(cost: str) -> None:
    with pytest.raises(SpecError) as error:
        build(parse(cost, ""), 12)
    assert error.value.problem == f"cost {cost} is for a power of two, and here are 12 hosts"
    assert error.value.fix == "take cost=ring, or 8 hosts"


@pytest.mark.parametrize(
    ("cost", "problem"),
    [
        ("rign", "there is no cost 'rign' (did you mean 'ring'?)"),
        ("bcube(base=1)", "cost bcube: base is 1"),
        ("ring(base=2)", "cost ring has no parameter 'base'"),
    ],
)
def test_costs_that_are_none(cost: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        build(parse(cost, ""), 8)
    assert error.value.problem == problem


@pytest.mark.parametrize("name", COSTS)
def test_any_host_may_be_rank_0_where_a_cost_says_so(name: str) -> None:
    """The solver puts host 0 there: the least cost must not change."""
    distances = np.random.default_rng(1).integers(1, 99, (8, 8)).astype(float)
    one = priced(name, distances)
    every = np.array([*itertools.permutations(range(8))])
    values = one.values(every)
    if one.cost.any_first:
        assert values[every[:, 0] == 0].min() == values.min()
        assert values[every[:, 0] == 0].max() == values.max()
    else:
        assert name == "double_binary_tree"


def test_longest_way_of_the_trees_that_run() -> None:
    """Up and down: rank 1 of eight is below 2, 4 and 0 in the first tree, and two of these hops are between racks."""
    forest = build_plan("double_binary_tree", build_topology("star(hosts=8)", rate_bps=RATE_BPS), [])
    assert longest_way(forest, Distances(racks([8])), range(8)) == 6  # type: ignore[arg-type]
    assert longest_way(forest, Distances(racks([4, 4])), range(8)) == 14  # type: ignore[arg-type]
