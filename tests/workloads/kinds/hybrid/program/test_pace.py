"""How long steps take, and what servers that keep to it come to together."""

from __future__ import annotations

from heapq import heappop, heappush

import pytest
from hypothesis import given, settings

from testbed.topologies.build import build
from testbed.workloads.job import Compute
from testbed.workloads.kinds.hybrid.program.steps import Agenda, Clock, Ends, Step, flop_per_s, messages, step_s, steps
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.prediction import Machine, predict
from testbed.workloads.parallel.strategy import Strategy, data_parallel, read
from tests.workloads.kinds.hybrid.program.in_process import cuts
from tests.workloads.parallel.small import TABLES

PACE_S = 0.3


def test_paces_are_shares_of_multiply_adds_for_each_batch_served() -> None:
    whole = operators_of("dlrm_tiny")
    for given_, batches in (("data", [1.0] * 4), ({"rest": [2]}, [0, 0, 4.0, 0])):
        strategy = read(whole, 4, given_)
        ends = Ends(messages(whole, strategy))
        for server, expected in enumerate(batches):
            own = steps(whole, strategy, server, ends)
            assert sum(step_s(whole, step, 0.3) for step in own) == pytest.approx(0.3 * expected)


def test_paces_are_those_of_the_machine_that_is_predicted() -> None:
    whole = operators_of("dlrm_tiny")
    strategy = data_parallel(whole, 1)
    machine = Machine(flop_per_s(whole, 0.3))
    for step in steps(whole, strategy, 0, Ends(messages(whole, strategy))):
        flop = 2 * whole.operators[step.place].multiply_adds * whole.samples * (2 if step.phase == "backward" else 1)
        assert step_s(whole, step, 0.3) == pytest.approx(flop / machine.flop_per_s)


@settings(max_examples=25)
@given(cuts(TABLES).filter(lambda one: one.servers > 1))
def test_servers_that_keep_pace_take_as_long_as_is_predicted(strategy: Strategy) -> None:
    """Over links that take no time."""
    network = Network(build(f"star(hosts={strategy.servers})", rate_bps=10**18))
    predicted = predict(TABLES, strategy, network, Machine(flop_per_s(TABLES, PACE_S), memory_bytes=1e12))
    assert _played_s(TABLES, strategy) == pytest.approx(predicted.iteration_s, rel=1e-6)


def _played_s(model: Model, strategy: Strategy) -> float:
    every = messages(model, strategy)
    lists = [steps(model, strategy, server, Ends(every)) for server in range(strategy.servers)]
    agendas, clocks = [Agenda(own) for own in lists], [Clock(model, Compute("paced", PACE_S)) for _ in lists]
    for agenda, clock in zip(agendas, clocks, strict=True):
        agenda.begin(0.0)
        clock.begin(0, 0.0)
    ends: list[tuple[float, int, int, Step]] = []
    busy, now_s, taken = set[int](), 0.0, 0
    while True:
        for server, agenda in enumerate(agendas):
            if server not in busy and (found := agenda.next()):
                heappush(ends, (clocks[server].due_s(*found, now_s), taken, server, found[0]))
                busy.add(server)
                taken += 1
        if not ends:
            break
        now_s, _, server, step = heappop(ends)
        busy.remove(server)
        agendas[server].done(step, now_s)
        for message in step.gives:
            if not message.is_local:
                agendas[message.dst].arrived(message.number, now_s)
    assert all(agenda.is_over for agenda in agendas)
    assert not any(clock.overrun_s for clock in clocks)
    return now_s


def _one_step() -> Step:
    strategy = data_parallel(TABLES, 1)
    return steps(TABLES, strategy, 0, Ends(messages(TABLES, strategy)))[4]


def test_waiting_is_what_a_server_that_is_free_waits_for() -> None:
    step, clock = _one_step(), Clock(TABLES, Compute("paced", PACE_S))
    clock.begin(0, 10.0)
    first = clock.due_s(step, 10.5, 10.51)
    assert first == pytest.approx(10.5 + step_s(TABLES, step, PACE_S))
    assert clock.due_s(step, 10.1, 10.6) == pytest.approx(first + step_s(TABLES, step, PACE_S))
    assert clock.wait_s == {"forward": 0.5, "backward": 0.0}
    assert clock.overrun_s == 0


def test_what_is_late_is_counted_and_made_up_for() -> None:
    step, clock = _one_step(), Clock(TABLES, Compute("paced", PACE_S))
    clock.begin(0, 0.0)
    each = step_s(TABLES, step, PACE_S)
    assert clock.due_s(step, 0.0, 3 * each) == pytest.approx(each)
    assert clock.due_s(step, 0.0, 3 * each) == pytest.approx(2 * each)
    assert clock.overrun_s == pytest.approx(2 * each)


def test_a_straggler_takes_longer() -> None:
    step, clock = _one_step(), Clock(TABLES, Compute("paced", PACE_S, factor=(1.0, 3.0), extra_s=(0.0, 5.0)))
    each = step_s(TABLES, step, PACE_S)
    clock.begin(1, 0.0)
    assert clock.due_s(step, 0.0, 0.0) == pytest.approx(3 * each + 5)
    assert clock.due_s(step, 0.0, 0.0) == pytest.approx(6 * each + 5)


def test_without_a_pace_a_step_ends_when_it_is_computed() -> None:
    step, clock = _one_step(), Clock(TABLES, Compute("real", factor=(2.0,)))
    clock.begin(0, 0.0)
    assert clock.due_s(step, 1.0, 1.25) == pytest.approx(1.5)
    assert clock.due_s(step, 1.0, 1.75) == pytest.approx(2.0)
    assert clock.wait_s == {"forward": 1.0, "backward": 0.0}
    assert clock.overrun_s == 0
