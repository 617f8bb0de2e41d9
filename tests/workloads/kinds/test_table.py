"""Kinds whose transfers are a table: their messages are those of their costs, and no other kind has any."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds.hybrid.plan import plan
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.parallel.strategy import Strategy, gradients, read
from testbed.workloads.plan import Plan as AnyPlan
from testbed.workloads.sync.cost import cost_of_flows
from testbed.workloads.sync.flows import Flows
from testbed.workloads.sync.messages import Message
from testbed.workloads.sync.schemes import build, build_plan
from tests.workloads.kinds.hybrid.test_hybrid_plan import SMALL, TWO
from tests.workloads.parallel.test_strategy import strategies

star = partial(build_topology, rate_bps=10**9)


def messages(made: AnyPlan, floats: int, chunk_bytes: int = 64) -> list[Message]:
    table = kinds.of(made).table
    assert table is not None
    return list(table.messages(made, Gradient((floats,), (range(1),), ((0, floats),)), chunk_bytes))


def bytes_are_those_of_cost(made: AnyPlan, net: Topology, floats: int) -> None:
    sent = Counter[tuple[int, int]]()
    for one in messages(made, floats):
        sent[one.src, one.dst] += one.bytes
    ends = np.array(list(sent), np.int64).reshape(-1, 2)
    traffic = Flows(ends[:, 0], ends[:, 1], np.array(list(sent.values()), np.float64))
    expected = kinds.of(made).cost(made, net, 4.0 * floats).link_bytes
    assert cost_of_flows(traffic, net, 0).link_bytes == pytest.approx(expected)


def test_which_kinds_have_a_table() -> None:
    assert {name for name, kind in kinds.kinds().items() if kind.table} == {"forest", "library", "script", "hybrid"}


@pytest.mark.parametrize("scheme", ["ring", "ps", "two_level", "double_binary_tree", "gloo", "openmpi"])
def test_forests_libraries_and_scripts(scheme: str) -> None:
    net = star("star(hosts=4)")
    made = build(scheme, net, [])
    bytes_are_those_of_cost(made, net, 40_000)
    if scheme != "openmpi":
        script = kinds.of(made).carrier.for_scripts(made, net)
        assert script.kind == "script"
        bytes_are_those_of_cost(script, net, 40_000)


def test_a_small_array_of_a_script_takes_as_few_classes_as_its_engine_does() -> None:
    made = scripted(build("ring", star("star(hosts=8)"), []))
    assert len({one.what.klass for one in messages(made, 1024)}) == 2


@given(strategies(SMALL).filter(lambda one: bool(gradients(SMALL, one))))
@settings(max_examples=15)
def test_hybrid_messages_come_after_what_they_need(strategy: Strategy) -> None:
    net = star(f"star(hosts={strategy.servers})")
    made = plan(net, SMALL, strategy)
    every = messages(made, made.gradient_floats)
    place = {one.number: i for i, one in enumerate(every)}
    into = {one.number: one.dst for one in every}
    assert len(place) == len(every)
    for i, one in enumerate(every):
        assert all(place[number] < i and into[number] == one.src for number in one.after)
    bytes_are_those_of_cost(made, net, made.gradient_floats)
    got = Counter(one.src for one in every if one.what.klass < 0)
    assert got == Counter(made.workers[one.src] for one in made.messages if not one.is_local)


def test_a_server_begins_its_allreduces_when_it_has_all_tensors() -> None:
    made = plan(star("star(hosts=6)"), TWO, read(TWO, 6, {"e": [0], "a": [0, 2, 4], "b": "all"}))
    every = messages(made, made.gradient_floats)
    tensors = {one.number for one in every if one.what.klass < 0}
    for node in range(6):
        owed = {one.number for one in every if one.dst == node and one.number in tensors}
        assert owed
        up = [one for one in every if one.src == node and one.what.phase == "up"]
        assert up
        assert all(owed <= set(one.after) for one in up)
    first = next(one for one in every if one.dst == 2)
    assert (first.src, first.bytes, first.after, first.what.phase) == (0, 640, (), "forward")
    answer = next(one for one in every if (one.src, one.what.phase) == (2, "backward") and one.dst == 0)
    by_number = {one.number: (one.src, one.what.phase) for one in every}
    assert {by_number[number] for number in answer.after} == {(0, "forward"), (3, "backward")}


def test_a_scheduler_has_no_table() -> None:
    assert kinds.of(build_plan("mlfabric_s", star("star(hosts=5)"), [1000])).table is None
