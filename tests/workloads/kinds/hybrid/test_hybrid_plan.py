"""What an iteration of hybrid training puts on links, by hand and against the prediction."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.topologies.build import build
from testbed.topologies.part import Part
from testbed.topologies.topoopt.finder import find
from testbed.workloads import kinds
from testbed.workloads.kinds.hybrid.parts import HeldOperators, StrategyPredictor
from testbed.workloads.kinds.hybrid.plan import Plan, ReconfiguredCost, plan
from testbed.workloads.parallel.network import Network, of_found
from testbed.workloads.parallel.operators import Model, Operator, model, scaled
from testbed.workloads.parallel.prediction import Machine, predict
from testbed.workloads.parallel.strategy import Strategy, demand_of, gradients, read
from testbed.workloads.sync.cost import IDEAL, Shaper
from testbed.workloads.sync.verify import verify
from tests.processes import met
from tests.workloads.parallel.small import CHAIN, TABLES
from tests.workloads.parallel.test_strategy import strategies

SMALL = scaled(TABLES, 1000)
star = partial(build, rate_bps=10**9)
TWO = model(
    Model(
        "two",
        (
            Operator("e", (), (4000,), 1, 8),
            Operator("a", ("e",), (1200,), 1, 2),
            Operator("b", ("a",), (1600,), 1, 1),
        ),
        10,
    )
)
"""A sample's output has 32 bytes of ``e`` and 8 of ``a``; a server brings 10 of them."""


def sent(made: Plan) -> dict[tuple[int, int], float]:
    return {(src, dst): count for src, dst, count in made.flows if count}


def test_two_groups_and_messages_on_six_servers_by_hand() -> None:
    """``e`` is on server 0, ``a`` on 0, 2, 4, and ``b`` on all. Holder i of ``a`` serves servers 2 i and 2 i + 1.

    From 0 to 2 and 4 go outputs of 20 samples, 640 bytes, and as much back. Server 1, 3, 5 get the output of ``a`` for
    10 samples, 80 bytes. Of ``a``'s 1,200 bytes each member sends 4/3, of ``b``'s 1,600 each 5/3: half to the next one
    of its ring, half to the one before.
    """
    net = star("star(hosts=6)")
    made = plan(net, TWO, read(TWO, 6, {"e": [0], "a": [0, 2, 4], "b": "all"}))
    verify(made.forest, net)
    assert made.gradient_floats == 700
    expected: dict[tuple[int, int], float] = {}
    for a, b, count in [(0, 2, 640), (0, 4, 640), (0, 1, 80), (2, 3, 80), (4, 5, 80)]:
        expected[a, b] = expected[b, a] = count
    for ring, each in [((0, 2, 4), 800), (range(6), 1600 * 5 / 6)]:
        for a, b in zip(ring, [*ring[1:], ring[0]], strict=True):
            for way in [(a, b), (b, a)]:
                expected[way] = expected.get(way, 0) + each
    assert sent(made) == pytest.approx(expected, abs=8)  # classes have whole floats
    assert met(made, 3) == [2, 4]
    assert met(made, 0) == [1, 2, 4, 5]
    out = made.cost(net).link_bytes[net.ports[0][0]]
    assert out == pytest.approx(640 + 640 + 80 + 1600 + 2667, abs=20)


def test_who_is_in_no_group_waits_at_barriers_alone() -> None:
    net = star("star(hosts=4)")
    made = plan(net, TWO, read(TWO, 4, {"e": [3], "a": [0, 1], "b": [1, 2]}))
    verify(made.forest, net)
    assert made.forest.workers == (0, 1, 2, 3)
    assert [made.strategy.holders[place] for place in (1, 2)] == sorted(made.layout.groups)


@given(strategies(SMALL))
@settings(deadline=None, max_examples=25)
def test_links_carry_what_the_prediction_says(strategy: Strategy) -> None:
    """On a star, but for the classes' whole floats."""
    if not gradients(SMALL, strategy):
        return
    network = Network(star(f"star(hosts={strategy.servers})"))
    made = plan(network.topology, SMALL, strategy)
    verify(made.forest, network.topology)
    predicted = predict(SMALL, strategy, network, Machine())
    assert made.cost(network.topology).link_bytes == pytest.approx(predicted.link_bytes, rel=1e-3, abs=600)


NETWORKS = ("star(hosts={})", "patch_panel(servers={},degree=2,rings=[1])", "expander(servers={},degree=3,seed=1)")


@given(strategies(TABLES), st.sampled_from(NETWORKS), st.sampled_from([0.0, 0.05, 2.0]))
def test_least_job_times_are_below_predicted_ones(strategy: Strategy, network: str, pace_s: float) -> None:
    """Of three iterations, each of which begins when the one before has ended everywhere."""
    if not gradients(TABLES, strategy) or strategy.servers < 4:
        return
    net = star(network.format(strategy.servers))
    made = plan(net, TABLES, strategy)
    kind, model = kinds.of(made), HeldOperators()
    paces_s = pace_s * np.repeat(np.array(model.paces(made))[:, None], 3, axis=1)
    least_s = kind.least_jct_s(made.cost(net), Shaper(), paces_s, "none")
    predicted_s = StrategyPredictor().iteration_s(made, net, pace_s, goodput=1.0)
    assert 0 < least_s <= 3 * predicted_s * (1 + 1e-4)


@pytest.mark.parametrize(("servers", "degree"), [(6, 4), (8, 6)])
def test_over_the_circuits_and_rings_that_were_found(servers: int, degree: int) -> None:
    strategy = read(SMALL, servers, {"e0": [0], "e1": [1], "e2": [2, 3], "rest": "all"})
    network = of_found(find(demand_of(SMALL, strategy), degree, "geometric"), 10**9)
    made = plan(network.topology, SMALL, strategy, network.rings)
    verify(made.forest, network.topology)
    predicted = predict(SMALL, strategy, network, Machine())
    assert made.cost(network.topology).link_bytes == pytest.approx(predicted.link_bytes, rel=1e-3, abs=2000)


@given(st.floats(1, 1e6))
@settings(max_examples=20)
def test_a_scaled_model_has_the_same_shape(scale: float) -> None:
    small = scaled(CHAIN, scale)
    assert small.inputs == CHAIN.inputs
    for one, whole in zip(small.operators, CHAIN.operators, strict=True):
        assert one.multiply_adds == whole.multiply_adds
        assert one.output_floats == max(1, round(whole.output_floats / scale))
        assert all(size % 4 == 0 and size > 0 for size in one.tensors)


@pytest.mark.parametrize(
    ("hosts", "given", "text"),
    [
        (
            5,
            {"rest": "all"},
            "the strategy is for 4 servers, and star(hosts=5) has 5\n  fix: give a strategy for this network's hosts",
        ),
        (
            4,
            {"e": [0], "rest": [1]},
            "two: under strategy {e: [0], rest: [1]} no two servers hold the same operator, so nothing is "
            "synchronised\n"
            "  fix: let several servers hold an operator, such as rest: all",
        ),
    ],
)
def test_what_cannot_be_is_refused(hosts: int, given: dict[str, object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan(star(f"star(hosts={hosts})"), TWO, read(TWO, 4, given))
    assert str(caught.value) == text


@given(strategies(SMALL), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_on_some_hosts_of_a_network_all_is_as_on_a_network_of_their_own(strategy: Strategy, random: Random) -> None:
    """But for the nodes: server i is the job's i-th host."""
    if not gradients(SMALL, strategy):
        return
    servers = strategy.servers
    alone = plan(star(f"star(hosts={servers})"), SMALL, strategy)
    whole = star(f"star(hosts={servers + 3})")
    part = Part(whole, tuple(random.sample(whole.hosts, servers)))
    made = kinds.placed(plan(part.topology, SMALL, strategy), part)
    verify(made.forest, whole)
    assert made.workers == part.hosts
    assert made.pairs == sorted((part.hosts[a], part.hosts[b]) for a, b in alone.pairs)
    assert sent(made) == {(part.hosts[a], part.hosts[b]): count for (a, b), count in sent(alone).items()}
    assert met(made, part.hosts[0]) == sorted(part.hosts[one] for one in met(alone, 0))
    one, other = made.cost(whole), alone.cost(star(f"star(hosts={servers})"))
    pace_s = np.linspace(0.1, 0.2, 2 * servers).reshape(servers, 2)
    assert one.least_jct_s(IDEAL, pace_s) == other.least_jct_s(IDEAL, pace_s)
    moved, moved_too = (ReconfiguredCost(**vars(cost)) for cost in (one, other))
    assert moved.bound_s() == moved_too.bound_s()
    assert moved.least_jct_s(IDEAL, pace_s) == moved_too.least_jct_s(IDEAL, pace_s)
    assert one.bound_s() == other.bound_s()
    kind, model, theory = kinds.of(made), HeldOperators(), StrategyPredictor()
    predicted_s = theory.iteration_s(alone, part.topology, 0.1, 1.0)
    assert theory.iteration_s(made, whole, 0.1, 1.0) == pytest.approx(predicted_s)
    assert [*model.held(made)] == [*model.held(alone)]
    assert [*model.paces(made)] == [*model.paces(alone)]
    again = kind.decode(kind.encode(made))
    assert (again.workers, again.pairs, again.messages) == (made.workers, made.pairs, made.messages)
    assert kind.to_json(made)["messages"] == [
        [f"h{part.hosts[int(src[1:])]}", f"h{part.hosts[int(dst[1:])]}", count]
        for src, dst, count in kind.to_json(alone)["messages"]
    ]
