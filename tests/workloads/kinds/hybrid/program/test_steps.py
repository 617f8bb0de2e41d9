"""Which steps a server takes, which boundary tensors cross, and which step is next. Nothing is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.workloads.job import Compute
from testbed.workloads.kinds.hybrid.program.steps import (
    PHASES,
    Agenda,
    Clock,
    Ends,
    Message,
    Step,
    flop_per_s,
    messages,
    served,
    step_s,
    steps,
)
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.operators import Model, Operator, model
from testbed.workloads.parallel.prediction import Machine, predict
from testbed.workloads.parallel.strategy import Strategy, data_parallel, holder_of, mp_bytes, read
from tests.workloads.kinds.hybrid.program.in_process import cuts
from tests.workloads.parallel.small import CHAIN, TABLES

BRANCHES = model(
    Model(
        "branches",
        (
            Operator("a", (), (8,), 2, 3),
            Operator("b", ("a",), (12,), 5, 7),
            Operator("c", ("a",), (4,), 1, 2),
            Operator("d", ("b", "c"), (16,), 4, 1),
        ),
        4,
    )
)
MODELS = [CHAIN, TABLES, BRANCHES, operators_of("dlrm_tiny")]


@pytest.mark.parametrize("whole", MODELS, ids=lambda one: str(one.name))
@settings(max_examples=20)
@given(data=st.data())
def test_messages_between_servers_are_t_mp_to_the_byte(whole: Model, data: st.DataObject) -> None:
    strategy = data.draw(cuts(whole))
    found = np.zeros((strategy.servers,) * 2, np.int64)
    every = messages(whole, strategy)
    assert [message.number for message in every] == list(range(len(every)))
    for message in every:
        if not message.is_local:
            found[message.src, message.dst] += message.bytes
    assert np.array_equal(found, mp_bytes(whole, strategy))


@pytest.mark.parametrize("whole", MODELS, ids=lambda one: str(one.name))
@settings(max_examples=20)
@given(data=st.data())
def test_every_message_has_one_maker_and_one_taker_for_samples_that_both_serve(
    whole: Model, data: st.DataObject
) -> None:
    strategy = data.draw(cuts(whole))
    every = messages(whole, strategy)
    made, taken = Counter[int](), Counter[int]()
    for server in range(strategy.servers):
        for step in steps(whole, strategy, server, Ends(every)):
            for message in step.gives:
                made[message.number] += 1
                assert set(message.servers) <= set(step.servers)
            for message in step.needs:
                taken[message.number] += 1
                assert set(message.servers) <= set(step.servers)
            for other in whole.inputs[step.place] if step.phase == "forward" else whole.consumers[step.place]:
                parts = [set(one.servers) for one in step.needs if other in (one.producer, one.consumer)]
                assert sorted(x for part in parts for x in part) == list(step.servers)
    assert made == taken == Counter(range(len(every)))


@pytest.mark.parametrize("whole", MODELS, ids=lambda one: str(one.name))
@settings(max_examples=20)
@given(data=st.data())
def test_steps_are_those_that_are_found_among_all_messages(whole: Model, data: st.DataObject) -> None:
    strategy = data.draw(cuts(whole))
    every = messages(whole, strategy)
    ends = Ends(every)
    for server in range(strategy.servers):
        assert steps(whole, strategy, server, ends) == tuple(_searched(whole, strategy, server, every))


def _searched(whole: Model, strategy: Strategy, server: int, every: Sequence[Message]) -> Iterator[Step]:
    """Yield the steps of a server, each with a look at every message."""
    for phase in PHASES:
        is_forward = phase == "forward"
        for place in sorted(range(len(whole.operators)), reverse=not is_forward):
            if server in (holders := strategy.holders[place]):
                whose = [s for s, holder in enumerate(holder_of(strategy.servers, holders)) if holder == server]
                own = [one for one in every if one.phase == phase]
                yield Step(
                    phase,
                    place,
                    range(whose[0], whose[-1] + 1),
                    tuple(
                        one
                        for one in own
                        if one.dst == server and place == (one.consumer if is_forward else one.producer)
                    ),
                    tuple(
                        one
                        for one in own
                        if one.src == server and place == (one.producer if is_forward else one.consumer)
                    ),
                    not whole.consumers[place],
                )


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
def test_a_holder_serves_neighbours(asked: tuple[int, set[int]]) -> None:
    servers, holders = asked[0], tuple(sorted(asked[1]))
    whole = Strategy(servers, (holders,))
    for holder in holders:
        whose = served(whole, holders, holder)
        assert [holder_of(servers, holders)[server] for server in whose] == [holder] * len(whose)
    assert sum(len(served(whole, holders, holder)) for holder in holders) == servers


@settings(max_examples=25)
@given(data=st.data())
def test_iterations_end_in_whatever_order_messages_arrive(data: st.DataObject) -> None:
    """Servers that are ahead send what is for the next iteration."""
    whole = data.draw(st.sampled_from([CHAIN, TABLES, BRANCHES]))
    strategy = data.draw(cuts(whole))
    draw = data.draw(st.randoms(use_true_random=False))
    every = messages(whole, strategy)
    lists = [steps(whole, strategy, server, Ends(every)) for server in range(strategy.servers)]
    agendas, begun = [Agenda(one) for one in lists], [0] * strategy.servers
    done: list[list[tuple[str, int]]] = [[] for _ in lists]
    wire: list[int] = []
    while True:
        for server, agenda in enumerate(agendas):
            if agenda.is_over and begun[server] < 3:
                agenda.begin(0.0)
                begun[server] += 1
        moved = False
        for server in draw.sample(range(strategy.servers), strategy.servers):
            if found := agendas[server].next():
                step, moved = found[0], True
                done[server].append((step.phase, step.place))
                wire += [message.number for message in step.gives if not message.is_local]
                agendas[server].done(step, 0.0)
        if wire:
            moved = True
            number = wire.pop(draw.randrange(len(wire)))
            agendas[every[number].dst].arrived(number, 0.0)
        if not moved:
            break
    assert begun == [3] * strategy.servers
    for server, own in enumerate(lists):
        assert agendas[server].is_over
        for round_ in range(3):
            part = done[server][round_ * len(own) : (round_ + 1) * len(own)]
            assert sorted(part) == sorted((step.phase, step.place) for step in own)


def test_what_is_ready_first_is_taken_first() -> None:
    strategy = read(TABLES, 2, {"e2": [0], "e3": [1], "rest": "all"})
    every = messages(TABLES, strategy)
    agenda = Agenda(steps(TABLES, strategy, 0, Ends(every)))
    agenda.begin(2.0)
    first = [agenda.next() for _ in range(4)]
    assert [(step[0].place, step[1]) for step in first if step] == [(0, 2.0), (1, 2.0), (2, 2.0)]
    assert first[3] is None


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
