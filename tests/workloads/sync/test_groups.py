"""Several collectives at once: who sends how much, what is refused, and sums over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds import named
from testbed.workloads.learning.replay import Values
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.cost import Releases, cost
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.flows import flows, neighbours
from testbed.workloads.sync.forest import ABSENT, FixedPoint, Forest
from testbed.workloads.sync.groups import summed, together
from testbed.workloads.sync.plan import barrier_classes, plan
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.trees import rings
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
OnEveryNode = Callable[..., dict[int, object]]
LIMIT_S = 30.0
TWO = "ring(members=[[0,1,2],[2,3,4,5]])"
GROUPS = st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=6, unique=True), min_size=1, max_size=4)


def by_pair(forest: Forest, gradient_bytes: float) -> dict[tuple[int, int], float]:
    return {(src, dst): count for src, dst, count in flows(forest, gradient_bytes) if count}


def test_two_rings_on_six_servers_by_hand(topology: Build) -> None:
    """Of 2400 bytes each group has 1200; k members send 2 (k-1)/k of them each, to the next one of their ring."""
    net = topology("star(hosts=6)")
    forest = build(TWO, net, [])
    verify(forest, net)
    three, four = (
        dict.fromkeys([(0, 1), (1, 2), (2, 0)], 1600.0),
        dict.fromkeys([(2, 3), (3, 4), (4, 5), (5, 2)], 1800.0),
    )
    assert by_pair(forest, 2400) == pytest.approx({**three, **four})
    found = cost(forest, net, 2400)
    assert found.rounds == 6
    assert found.wire_bytes == pytest.approx(3 * 1600 + 4 * 1800)
    out = {node: found.link_bytes[net.ports[node][0]] for node in net.hosts}
    assert out == pytest.approx({0: 1600, 1: 1600, 2: 3400, 3: 1800, 4: 1800, 5: 1800})
    assert found.bound_s() == pytest.approx(3400 * 8 / 1e9)


def test_groups_have_their_own_bytes_and_rings(topology: Build) -> None:
    """A group of 900 floats on both directions of a ring, and a pair with 100; in the order of the gradient."""
    net = topology("star(hosts=6)")
    both = rings(net, [[0, 2, 4], [4, 2, 0]])
    forest = together(net, [(both, 900), (rings(net, [[1, 4]]), 100)], aligned=True)
    verify(forest, net)
    assert forest.share.tolist() == [0, *[150] * 6, 50, 50]
    ring = [(0, 2), (2, 4), (4, 0)]
    expected = dict.fromkeys([*ring, *((b, a) for a, b in ring)], 2400.0) | {(1, 4): 400.0, (4, 1): 400.0}
    assert by_pair(forest, 4000) == pytest.approx(expected)
    table = cut(forest, 1000, [(500, 1000), (0, 500)], 80)
    assert summed(forest, table) == [((0, 900), (0, 2, 3)), ((900, 1000), (1, 3))]


def test_strides_go_by_places_in_a_group(topology: Build) -> None:
    net = topology("star(hosts=6)")
    forest = build("multi_ring(strides=[1,3],members=[[0,1,2,3],[2,3,4,5]])", net, [])
    verify(forest, net)
    assert set(by_pair(forest, 1.0)) == {
        *((a + i, a + (i + step) % 4) for a in (0, 2) for i in range(4) for step in (1, 3))
    }


@pytest.mark.parametrize("spread", [False, True])
def test_who_is_not_in_a_class_does_nothing_for_it(topology: Build, spread: bool) -> None:
    net = topology("star(hosts=6)")
    parts = [(rings(net, [[0, 1, 2]]), 3), (rings(net, [[3, 4, 5]]), 3)]
    forest = together(net, [*parts, (rings(net, [range(6)]), 6)] if spread else parts)
    table = cut(forest, 1200, [(0, 1200)], 40)
    mine = plan(1, forest, table)
    assert mine.chunks[0] == int((forest.reduce[table.klass, 1] != ABSENT).sum()) < len(table)
    assert set(neighbours(forest, 1)) == ({0, 2} | ({2} if spread else {0}))
    assert len(barrier_classes(forest)) == 1 == mine.chunks[1] == mine.barrier_rounds


def test_a_class_alone_is_bound_by_its_own_members(topology: Build) -> None:
    """The pair's sum leaves when both of the pair are ready, whatever the last worker does."""
    net = topology("star(hosts=4)")
    forest = build("ring(members=[[0,1],[2,3]])", net, [])
    releases = Releases(forest, net, 800.0)
    edges_s = releases.edges_s({0: 1.0, 1: 2.0, 2: 3.0, 3: 9.0})
    late = releases.link_bytes(edges_s, 9.0)
    out = [late[net.ports[node][0]] for node in net.hosts]
    # 2's own partial sum of 200 bytes left at 3; the sums of both classes, and 3's part, leave at 9.
    assert out == [0.0, 0.0, 200.0, 400.0]
    assert releases.link_bytes(edges_s, 1.0) == pytest.approx(cost(forest, net, 800.0).link_bytes)


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("ring(members=[[0,1],[2]])", "ring: members [2] are not two\n  fix: give each group two hosts or more"),
        ("ring(members=[[0,6]])", "ring: members [0, 6] name host 6\n  fix: name hosts 0 to 5"),
        (
            "multi_ring(strides=[1],members=[[0,3,0]])",
            "multi_ring: members [0, 3, 0] name host 0 twice\n  fix: name each host of a group once",
        ),
        (
            "multi_ring(strides=[2],members=[[0,1,2,3]])",
            "multi_ring: the stride 2 misses some of the 4 members of a group\n"
            "  fix: take strides that are coprime to 4: 1, 3",
        ),
        (
            "multi_ring(permutations=[[0,1]],members=[[0,1]])",
            "multi_ring takes no permutations of groups of hosts\n"
            "  fix: write multi_ring(strides=[1,3],members=...), or ring(members=...), whose groups have an order",
        ),
    ],
)
def test_wrong_members_are_refused(topology: Build, scheme: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(scheme, topology("star(hosts=6)"), [])
    assert str(caught.value) == text


def with_members(forest: Forest, c: int, node: int, *, member: bool) -> Forest:
    assert forest.members is not None
    members = forest.members.copy()
    members[c, node] = member
    return replace(forest, members=members)


def without_class(forest: Forest, c: int) -> Forest:
    assert forest.members is not None
    rest = {name: np.delete(getattr(forest, name), c, axis=0) for name in ("share", "reduce", "broadcast", "members")}
    return replace(forest, **rest)


BROKEN: dict[str, Callable[[Forest], Forest]] = {
    "class 1: the worker h0 is in its reduce-tree, and is none of its members\n"
    "  fix: make it ABSENT there, or a member": lambda forest: with_members(forest, 1, 0, member=False),
    "class 1: the worker h4 is absent from its reduce-tree\n  fix: give it a parent": lambda forest: with_members(
        forest, 1, 4, member=True
    ),
    "class 2: its member s0 is no worker\n  fix: let only workers be members": lambda forest: with_members(
        forest, 2, 6, member=True
    ),
    "class 3: it has no members\n  fix: name at least one, or leave the class out": lambda forest: replace(
        forest, members=forest.members & (np.arange(forest.classes) != 3)[:, None]
    ),
    "no class has all workers as members, so there is no barrier\n"
    "  fix: add a class of share 0 with trees over all workers": lambda forest: without_class(forest, 0),
    "its members are int64[8, 7]\n  fix: make them bool[8, 7], classes by nodes": lambda forest: replace(
        forest, members=np.asarray(forest.members, np.int64)
    ),
    "has classes with members of their own, and sends gradients as integers\n"
    "  fix: leave out fixed, or let all workers be members of all classes": lambda forest: replace(
        forest, fixed=FixedPoint(1.0, 64), window=1
    ),
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_plans_are_refused(topology: Build, text: str) -> None:
    net = topology("star(hosts=6)")
    with pytest.raises(SchemeError) as caught:
        verify(BROKEN[text](build(TWO, net, [])), net)
    assert str(caught.value).endswith(text)


@given(groups=GROUPS, data=st.data())
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_groups_are_right_and_none_bears_a_change(
    topology: Build, groups: list[list[int]], data: st.DataObject
) -> None:
    """One parent of one class is overwritten: the sum would miss a member, or hold another's gradient."""
    net = topology("star(hosts=6)")
    forest = together(net, [(rings(net, [order]), data.draw(st.integers(1, 50))) for order in groups])
    verify(forest, net)
    assert forest.workers == tuple(sorted({host for group in groups for host in group}))
    kind = named("forest")
    again = kind.decode(kind.encode(forest))
    assert again.members is not None
    assert forest.members is not None
    assert np.array_equal(again.members, forest.members)
    tree = data.draw(st.sampled_from([forest.reduce, forest.broadcast]))
    c, node = data.draw(st.integers(0, forest.classes - 1)), data.draw(st.sampled_from(forest.workers))
    tree[c, node] = ABSENT if tree[c, node] != ABSENT else forest.workers[0]
    with pytest.raises(SchemeError):
        verify(forest, net)


@pytest.mark.parametrize("groups", [[[0, 1, 2], [2, 3, 4, 5]], [[0, 3], [1, 4, 5], [2, 1, 0]]])
def test_sums_over_sockets(topology: Build, on_every_node: OnEveryNode, groups: list[list[int]]) -> None:
    """Each group's part is its members' sum, and the others' part is as it was; with barriers between."""
    net = topology("star(hosts=6)")
    forest = together(net, [(rings(net, [order]), 1 + i) for i, order in enumerate(groups)])
    table = cut(forest, 30_000, [(12_000, 30_000), (0, 12_000)], 2000)

    def work(node: int, sockets: dict[int, socket.socket]) -> object:
        values = Values(30_000, 7, forest.workers.index(node), len(forest.workers), parts=summed(forest, table))
        engine, wrong = Engine(node, forest, table, sockets, values.gradient), []
        engine.barrier(LIMIT_S)
        for i in range(6):
            values.fill(i)
            for bucket in range(table.buckets):
                engine.start(bucket)
            engine.wait(LIMIT_S)
            wrong.append(values.wrong(i))
            if i == 2:
                engine.barrier(LIMIT_S)
        engine.barrier(LIMIT_S)
        values.gradient[::100] += 1
        return wrong, values.wrong(5)

    found = on_every_node(forest, list(forest.workers), work)
    assert found == dict.fromkeys(forest.workers, ([0] * 6, 300))
