"""MCMC and alternating optimisation: against all strategies of small models, by seed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise, product

import pytest

from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.topologies.topoopt.finder import find
from testbed.workloads.parallel.network import Network, of_found
from testbed.workloads.parallel.prediction import Machine, predict
from testbed.workloads.parallel.search import (
    Cost,
    Effort,
    Planned,
    Planner,
    Walk,
    _Alternations,
    alternate,
    choices,
    search,
    search_on,
)
from testbed.workloads.parallel.strategy import Strategy, data_parallel, fitting, held_bytes, is_silent
from tests.workloads.parallel.small import CHAIN, MB, TABLES

SEEDS, MUST_MEET = 20, 19
ON_GIGABIT = partial(of_found, rate_bps=10**9)
SERVERS = 4
TIGHT = Machine(memory_bytes=50 * MB)
"""TABLES' tables fit on single servers only, and not all on one."""


class Remembered:
    """A cost that is computed once for each strategy."""

    def __init__(self, planner: Planner, network: Network) -> None:
        self.cost = planner.cost(network)
        self.known: dict[Strategy, float] = {}

    def __call__(self, strategy: Strategy) -> float:
        if strategy not in self.known:
            self.known[strategy] = self.cost(strategy)
        return self.known[strategy]


class RememberingPlanner(Planner):
    @cached_property
    def known(self) -> dict[Strategy, Planned]:
        return {}

    def plan(self, strategy: Strategy) -> Planned:
        if strategy not in self.known:
            self.known[strategy] = super().plan(strategy)
        return self.known[strategy]


def met(costs: list[float], least: float) -> int:
    assert min(costs) >= least * (1 - 1e-9)  # else some strategy was forgotten
    return sum(cost <= least * (1 + 1e-9) for cost in costs)


def test_choices() -> None:
    assert choices(4) == ((0,), (0, 1), (0, 1, 2, 3), (0, 2), (1,), (1, 3), (2,), (2, 3), (3,))
    assert choices(3) == ((0,), (0, 1, 2), (1,), (2,))
    assert len(choices(16)) == 1 + 16 + 2 * (8 + 4 + 2)


def test_walks_meet_the_best_of_three_operators_on_four_servers() -> None:
    planner = Planner(CHAIN, partial(find, degree=4), ON_GIGABIT, Machine())
    cost = Remembered(planner, Network(build("star(hosts=4)", rate_bps=10**9)))
    least = min(cost(Strategy(SERVERS, holders)) for holders in product(choices(SERVERS), repeat=3))
    start = data_parallel(CHAIN, SERVERS)
    assert met([search(start, cost, 1000, seed).best_s for seed in range(SEEDS)], least) >= MUST_MEET


def test_walks_meet_the_best_of_four_tables_on_four_servers() -> None:
    """The dense part stays on all servers here: strategies that move it cost infinity."""
    planner = Planner(TABLES, partial(find, degree=4), ON_GIGABIT, TIGHT)
    network = Network(build("star(hosts=4)", rate_bps=10**9))
    everyone = tuple(range(SERVERS))
    remembered = Remembered(planner, network)

    def cost(strategy: Strategy) -> float:
        return remembered(strategy) if strategy.holders[-1] == everyone else math.inf

    least = min(
        cost(Strategy(SERVERS, (*tables, everyone)))
        for tables in product(choices(SERVERS), repeat=len(TABLES.inputs) - 1)
    )
    start = Strategy(SERVERS, ((0,), (0,), (1,), (2,), everyone))
    assert least < cost(start) < math.inf
    assert met([search(start, cost, 1500, seed).best_s for seed in range(SEEDS)], least) >= MUST_MEET


@pytest.mark.rehearse
def test_alternations_meet_the_best_of_three_operators_on_four_servers() -> None:
    """Over all strategies, each on the network that the finder makes for it."""
    planner = RememberingPlanner(CHAIN, partial(find, degree=2), ON_GIGABIT, Machine(memory_bytes=53 * MB))
    every = [Strategy(SERVERS, holders) for holders in product(choices(SERVERS), repeat=3)]
    least = min(planner.plan(one).prediction.iteration_s for one in every if not is_silent(CHAIN, one))
    found = [alternate(planner, SERVERS, Effort(800, seed)).best.prediction.iteration_s for seed in range(SEEDS)]
    assert met(found, least) >= MUST_MEET


def test_alternations_meet_the_best_of_four_tables_on_four_servers() -> None:
    """As above, of all strategies that fit. The dense part stays on all servers."""

    class Dense(RememberingPlanner):
        def cost(self, network: Network) -> Cost:
            cost = super().cost(network)
            return lambda strategy: cost(strategy) if len(strategy.holders[-1]) == SERVERS else math.inf

    planner = Dense(TABLES, partial(find, degree=2), ON_GIGABIT, TIGHT)
    every = (
        Strategy(SERVERS, (*tables, tuple(range(SERVERS))))
        for tables in product(choices(SERVERS), repeat=len(TABLES.inputs) - 1)
    )
    fits = [one for one in every if max(held_bytes(TABLES, one)) <= TIGHT.memory_bytes]
    least = min(planner.plan(one).prediction.iteration_s for one in fits)
    assert least < planner.plan(fits[0]).prediction.iteration_s
    found = [alternate(planner, SERVERS, Effort(600, seed)).best.prediction.iteration_s for seed in range(SEEDS)]
    assert met(found, least) >= MUST_MEET


class ScriptedPlanner(Planner):
    """Each network that it makes is better than the one before by a share of it; all strategies cost the same on it."""

    gain = 0.0

    @cached_property
    def asked(self) -> list[Strategy]:
        """The strategies for which the finder was called."""
        return []

    def plan(self, strategy: Strategy) -> Planned:
        made = super().plan(strategy)
        self.asked.append(strategy)
        return replace(made, prediction=replace(made.prediction, iteration_s=(1 - self.gain) ** len(self.asked)))

    def cost(self, network: Network) -> Cost:
        del network
        return lambda _: 1.0


@pytest.mark.parametrize(("gain", "rounds"), [(0.0, 2), (0.0009, 2), (0.002, 10)])
def test_an_alternation_ends_after_two_rounds_that_gain_too_little_or_after_ten(gain: float, rounds: int) -> None:
    planner = ScriptedPlanner(CHAIN, partial(find, degree=2), ON_GIGABIT, Machine())
    planner.gain = gain  # type: ignore[misc]  # the dataclass is frozen
    start = planner.plan(data_parallel(CHAIN, SERVERS))
    alternations = _Alternations(planner, [start], Effort(10**4))
    alternations.run(start)
    assert (len(alternations.rounds), alternations.steps) == (rounds, 50 * rounds)
    assert len(planner.asked) == 1 + rounds  # the finder is called at the end of each round


def test_the_finder_is_called_at_each_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies cost less the more servers hold operators; no network is good enough to move to."""

    class Improving(ScriptedPlanner):
        def cost(self, network: Network) -> Cost:
            del network
            return lambda strategy: 0.1 + sum(SERVERS - len(holders) for holders in strategy.holders) / 100

    improved: list[Strategy] = []
    step = Walk.step

    def noted(walk: Walk) -> bool:
        if better := step(walk):
            improved.append(walk.now)
        return better

    monkeypatch.setattr(Walk, "step", noted)
    planner = Improving(CHAIN, partial(find, degree=2), ON_GIGABIT, Machine())
    start = planner.plan(Strategy(SERVERS, ((0,), (1,), (0, 1))))
    _Alternations(planner, [start], Effort(10**4, rounds=1)).run(start)
    assert len(improved) >= 2
    assert planner.asked[1:-1] == improved  # before them the start, after them the end of the round


def test_one_seed_finds_the_same_and_the_best_never_rises() -> None:
    planner = Planner(TABLES, partial(find, degree=4), ON_GIGABIT, Machine())
    one, two = (alternate(planner, 6, Effort(200, seed=3)) for _ in range(2))
    assert (one.best.strategy, one.costs, one.rounds) == (two.best.strategy, two.costs, two.rounds)
    assert one.best.found.topology == two.best.found.topology
    assert one.steps == 200
    assert all(first[0] <= second[0] and first[1] > second[1] for first, second in pairwise(one.costs))
    assert all(first >= second for first, second in pairwise(one.rounds))
    again = predict(TABLES, one.best.strategy, one.best.network, planner.machine)
    assert again.iteration_s == one.best.prediction.iteration_s == one.costs[-1][1] == one.rounds[-1]


def test_an_increase_of_a_twentieth_passes_half_the_time() -> None:
    """A cost of 1.05 anywhere but at the start, whose cost is 1: half of the proposals are kept."""
    start = data_parallel(CHAIN, SERVERS)
    walks = [search(start, lambda strategy: 1.0 if strategy == start else 1.05, 1, seed) for seed in range(600)]
    kept = sum(walk.now != start for walk in walks)
    assert 240 < kept < 360  # 300, give or take five standard deviations
    assert all(walk.best == start for walk in walks)


def test_no_steps_leave_the_better_start() -> None:
    planner = Planner(TABLES, partial(find, degree=4), ON_GIGABIT, Machine())
    found = alternate(planner, 4, Effort(0))
    assert found.best.strategy == fitting(TABLES, 4, 40e9, place_tables=True)
    assert (found.steps, found.rounds, len(found.costs)) == (0, (), 1)


@pytest.mark.parametrize(
    ("effort", "said"),
    [
        ({"steps": 10**6 + 1}, "steps is 1,000,001\n  fix: give 0 to 1,000,000 steps"),
        ({"steps": -1}, "steps is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"rounds": 0}, "rounds is 0"),
        ({"patience": 0}, "patience is 0"),
    ],
)
def test_efforts_that_cannot_be(effort: dict[str, int], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        Effort(**effort)
    assert said in str(caught.value)


def test_a_search_on_a_network_that_stays_starts_from_the_better_of_two_strategies() -> None:
    network = Network(build("expander(servers=4,degree=3)", rate_bps=10**9))
    planner = Planner(TABLES, partial(find, degree=4), ON_GIGABIT, Machine())
    starts = [fitting(TABLES, SERVERS, planner.machine.memory_bytes, place_tables=tables) for tables in (False, True)]
    first_s = min(map(planner.cost(network), starts))
    assert search_on(planner, network, Effort(0)).best_s == first_s
    one, two = (search_on(planner, network, Effort(200, seed=3)) for _ in range(2))
    assert one.best == two.best
    assert one.best_s < first_s
    assert one.best_s == predict(TABLES, one.best, network, planner.machine).iteration_s
