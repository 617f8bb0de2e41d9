"""Schedules of nodes, run by an interpreter, and held against the engine's plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.topologies.model import Topology
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.plan import plan
from testbed.workloads.sync.schedule import Action, schedule
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify
from tests.workloads.sync.test_messages import SUITE

Buffers = dict[tuple[int, int], Counter[int]]


def interpret(schedules: list[list[Action]], seed: int) -> Buffers:
    """Run actions that are ready, drawn by lot, until none is; return what each node delivered of each class.

    A gradient is the name of its worker, so that a sum says whose gradients are in it, and how often.
    """
    draw = random.Random(seed)
    merge: Buffers = {}
    mail: dict[tuple[int, int, int], list[Counter[int]]] = {}
    delivered: Buffers = {}
    done: list[set[int]] = [set() for _ in schedules]
    left = [(node, action) for node, own in enumerate(schedules) for action in own]
    while True:
        ready = [
            (node, action)
            for node, action in left
            if done[node].issuperset(action.after)
            and (action.what != "ReceiveFrom" or all(mail.get((other, node, action.klass)) for other in action.nodes))
        ]
        if not ready:
            break
        node, action = draw.choice(ready)
        left.remove((node, action))
        done[node].add(action.number)
        at = node, action.klass
        if action.what == "Fetch":
            merge[at] = Counter([node])
        elif action.what == "ReceiveFrom":
            if any(schedules[node][number].what == "SendTo" for number in action.after):
                merge[at] = Counter()
            for other in action.nodes:
                merge[at] = merge.get(at, Counter()) + mail[other, node, action.klass].pop(0)
        elif action.what == "SendTo":
            for other in action.nodes:
                mail.setdefault((node, other, action.klass), []).append(Counter(merge.get(at, Counter())))
        else:
            delivered[at] = merge[at]
    assert not left
    assert not any(mail.values())
    return delivered


def is_right(forest: Forest, seed: int) -> None:
    schedules = [schedule(forest, node) for node in range(len(forest.nodes))]
    delivered = interpret(schedules, seed)
    expected = {}
    for klass in range(forest.classes):
        workers = [node for node in forest.workers if forest.members is None or forest.members[klass, node]]
        expected |= {(node, klass): Counter(workers) for node in workers}
    assert delivered == expected
    floats = int(forest.share.sum())
    table = cut(forest, floats, [(0, floats)], 4 * floats)
    for node, actions in enumerate(schedules):
        of = plan(node, forest, table)
        for k in range(of.data):
            own = [one for one in actions if one.klass == of.klass[k]]
            agrees(own, of.parent[of.klass[k]], of.children[k], of.forward[of.klass[k]], of.receives[of.klass[k]])


def agrees(own: list[Action], parent: int, children: int, forward: list[int], receives: bool) -> None:
    """The actions of a class are the engine's."""
    sends = [sorted(one.nodes) for one in own if one.what == "SendTo"]
    assert sends == [[parent]] * (parent >= 0) + [forward] * bool(forward)
    waits = [len(one.nodes) for one in own if one.what == "ReceiveFrom"]
    assert waits == [children] * bool(children) + [1] * (receives and parent != ROOT)
    if parent == ABSENT and not receives:
        assert not own


@given(seed=st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_trees_give_each_worker_the_sum_once(random_forest: Callable[..., Forest], seed: int) -> None:
    is_right(random_forest(seed, 5, 4, 2), seed)


def test_each_scheme_of_the_suite(topology: Callable[..., Topology]) -> None:
    for scheme, network in SUITE[::3]:
        net = topology(network.replace("hosts=9", "hosts=5"))
        forest = build(scheme, net, [50, 30, 20])
        verify(forest, net)
        is_right(forest, 1)


def test_a_global_master_that_is_alone_in_its_group(topology: Callable[..., Topology]) -> None:
    forest = build("two_level(groups=[[0],[1,2]])", topology("star(hosts=3)"), [])
    actions = [(one.what, one.nodes, one.after) for one in schedule(forest, 0) if one.klass == 0]
    (lm,) = actions[1][1]
    first = next(one.number for one in schedule(forest, 0) if one.klass == 0)
    assert actions == [
        ("Fetch", (), ()),
        ("ReceiveFrom", (lm,), (first,)),
        ("SendTo", (lm,), (first + 1,)),
        ("Deliver", (), (first + 1,)),
    ]
