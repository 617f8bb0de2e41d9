"""Orders that are found: against brute force, proven, repeatable, and without the exact solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from testbed.topologies.call import parse
from testbed.workloads.ranks import annealing, exact, orders
from testbed.workloads.ranks.costs import Distances, Priced, build
from testbed.workloads.ranks.orders import find

from .test_costs import priced, racks

COSTS = ["ring", "halving_doubling", "double_binary_tree", "bcube(base=4)", "lightgbm"]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "STEPS_A_HOST", 250)


def uneven(hosts: int, seed: int = 0) -> Priced:
    """A ring of hosts at random places in a square."""
    return priced("ring", apart(hosts, seed))


def apart(hosts: int, seed: int) -> np.ndarray:
    at = np.random.default_rng(seed).random((hosts, 2))
    return np.rint(1000 * np.hypot(*(at[:, None] - at).transpose(2, 0, 1)))


@pytest.mark.parametrize("cost", COSTS)
def test_brute_force_agrees(cost: str) -> None:
    one = priced(cost, apart(6 if cost in ("ring", "double_binary_tree") else 8, 3))
    values = one.values(np.array([*itertools.permutations(range(one.hosts))]))
    least, most = find(one, 0, 1.0), find(one, 100, 1.0)
    assert (least.cost, most.cost) == (values.min(), values.max())
    assert least.proven
    assert most.proven
    assert (least.bound, most.bound) == (least.cost, most.cost)
    assert sorted(least.order) == [*range(one.hosts)]


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("cost", [cost.replace("base=4", "base=2") for cost in COSTS])
def test_the_exact_solver_improves_on_an_order_and_then_proves_it(cost: str, worst: bool) -> None:
    one = priced(cost, apart(4, 1))
    every = np.array([*itertools.permutations(range(4))])
    values = one.values(every)
    given, aim = (every[values.argmin()], values.max()) if worst else (every[values.argmax()], values.min())
    better = exact.improve(one, given.tolist(), 1.0, worst=worst)
    assert better.order is not None
    assert one.value(better.order) == aim
    again = exact.improve(one, better.order, 1.0, worst=worst)
    assert (again.order, again.proven, again.bound) == (None, True, aim)


def test_a_ring_of_sixteen_is_proven() -> None:
    found = find(uneven(16), 0, 1.0)
    assert found.proven
    assert found.bound == found.cost < found.by_number < found.worst


@pytest.mark.parametrize("percentile", [25, 50, 90])
def test_a_percentile_is_a_share_of_the_range_of_costs(percentile: float) -> None:
    found = find(uneven(8), percentile, 1.0)
    assert found.cost == pytest.approx(found.best + percentile / 100 * (found.worst - found.best), rel=0.02)


def test_repeats_and_renamed_hosts_have_the_same_order_and_proof() -> None:
    first, second = (find(uneven(9), 0, 1.0) for _ in range(2))
    assert (first.order, first.cost, first.bound, first.proven) == (
        second.order,
        second.cost,
        second.bound,
        second.proven,
    )


def test_the_order_of_numbers_stays_where_none_is_better() -> None:
    assert find(priced("ring", racks([4, 4])), 0, 1.0).order == (*range(8),)


def test_without_the_solver_an_order_is_annealed_and_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = find(uneven(8), 0, 1.0)
    monkeypatch.setattr(exact, "find_spec", lambda _: None)
    without = find(uneven(8), 0, 1.0)
    assert without.order == with_it.order
    assert (without.proven, without.bound) == (False, None)
    assert without.note.startswith("not proven: pip install")
    assert "ortools" in without.note


def test_too_many_hosts_for_the_solver_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_ENTRIES", 63)
    found = find(uneven(8), 0, 1.0)
    assert (found.proven, found.bound) == (False, None)
    assert found.note == orders.TOO_LARGE


def test_sizes_of_transfers_count_by_their_shares() -> None:
    """By bytes, halving-doubling has racks in the bits whose rounds carry most."""
    distances = Distances(np.zeros((8, 8)), racks([4, 4], 1, 4))
    found = find(Priced(build(parse("halving_doubling", ""), 8), distances, 8.0), 0, 0.001)
    assert found.cost == pytest.approx(4 + 2 + 4)
    assert found.proven


@pytest.mark.parametrize(
    ("cost", "least", "most"),
    [("halving_doubling", 1.5, 3.75), ("bcube(base=4)", 0.5, 1.25)],
)
def test_a_search_is_guided_where_one_transfer_more_or_less_changes_no_round(
    cost: str, least: float, most: float
) -> None:
    """A round of 16 hosts in four racks is cheap only if each of its transfers is within a rack."""
    one = priced(cost, np.zeros((16, 16)), racks([4, 4, 4, 4], 1, 4), 1.0)
    best = annealing.anneal(16, one.with_means, 0)
    worst = annealing.anneal(16, lambda orders: -one.with_means(orders), 0)
    assert (one.value(best), one.value(worst)) == pytest.approx((least, most))
