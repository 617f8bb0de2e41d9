"""Messages of a synchronisation: bytes as theory has them, order as the engine has it, little memory."""

from __future__ import annotations

import fcntl
import itertools
import socket
import struct
import termios
import tracemalloc
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.bundle import Bundle
from testbed.workloads.sync.chunks import FLOAT_BYTES, ChunkTable, cut
from testbed.workloads.sync.compiled import CompiledEngine
from testbed.workloads.sync.cost import cost, cost_of_flows
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.flows import Flows, neighbours, pairs
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, messages
from testbed.workloads.sync.plan import plan
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.steps import steps
from tests.workloads.sync.test_every_scheme import FORESTS, expressions, networks

Build = Callable[..., Topology]
RACKS = "spine_leaf(racks=3,hosts_per_rack=3,spines=2{})"
SUITE = [
    *((scheme, "star(hosts=9)") for scheme in ("ps", "ps(place=tensor)", "ring", "tree", "double_binary_tree")),
    ("multi_ring(strides=[1,2])", "star(hosts=9)"),
    ("halving_doubling", "star(hosts=9)"),
    ("halving_doubling(remainder=fold)", "star(hosts=9)"),
    ("bcube(base=3)", "star(hosts=9)"),
    ("ps(colocated=false,servers=3)", "star(hosts=9)"),
    ("gloo", "star(hosts=9)"),
    ("openmpi(algorithm=rabenseifner)", "star(hosts=8)"),
    *((scheme, RACKS.format("")) for scheme in ("hierarchical_ps", "hierarchical_ps(across=ring)", "two_level")),
    ("h_ar", RACKS.format("")),
    ("hierarchical", "fat_tree(k=4)"),
    ("bml", "bcube(n=3,k=2)"),
    ("switchml(slots=6)", RACKS.format(",ina=all")),
    ("atp(slots=4)", RACKS.format(",ina=1")),
    ("rina(slots=12)", RACKS.format(",ina=2")),
]
FLOATS = 9 * 8 * 8 * 5 * 7


def table_of(forest: Forest, buckets: int = 1, chunk_bytes: int = 400, floats: int = FLOATS) -> ChunkTable:
    edges = [floats * i // buckets for i in range(buckets + 1)]
    return cut(forest, floats, list(itertools.pairwise(edges)), chunk_bytes)


def of_gradient(forest: Forest, table: ChunkTable) -> Iterator[Message]:
    """Those that theory counts: not those of block exponents."""
    return (one for one in messages(forest, table) if one.what.chunk < len(table))


def link_bytes(some: Iterator[Message], net: Topology) -> np.ndarray:
    sent = Counter[tuple[int, int]]()
    for one in some:
        sent[one.src, one.dst] += one.bytes
    ends = np.array(sorted(sent), np.int64).reshape(-1, 2)
    count_bytes = np.array([float(sent[pair]) for pair in sorted(sent)])
    return cost_of_flows(Flows(ends[:, 0], ends[:, 1], count_bytes), net, 0).link_bytes


@pytest.mark.parametrize(("scheme", "network"), SUITE)
def test_bytes_by_directed_link_are_those_of_cost(topology: Build, scheme: str, network: str) -> None:
    net = topology(network)
    forest = build(scheme, net, [FLOATS // 2, FLOATS // 2 - 100, 100 + FLOATS % 2])
    assert link_bytes(of_gradient(forest, table_of(forest)), net) == pytest.approx(
        cost(forest, net, FLOAT_BYTES * FLOATS).link_bytes, rel=1e-3
    )


@pytest.mark.parametrize("name", FORESTS)
@given(net=networks(), data=st.data())
@settings(max_examples=5)
def test_each_is_there_once_after_what_it_needs(name: str, net: Topology, data: st.DataObject) -> None:
    """And bytes are those of cost to the byte, where the classes divide the gradient."""
    sizes = data.draw(st.lists(st.integers(1, 150), min_size=1, max_size=4))
    try:
        forest = build(data.draw(expressions(name, net.host_count)), net, sizes)
    except SchemeError:
        return
    buckets = 1 if forest.aligned else data.draw(st.integers(1, 3))
    floats = int(forest.share.sum()) * (1 if forest.aligned else 6)
    table = table_of(forest, buckets, data.draw(st.sampled_from([4, 8, 12, 4000])), floats)
    every = list(messages(forest, table))
    place = {one.number: i for i, one in enumerate(every)}
    assert len(place) == len(every)
    into = {one.number: one.dst for one in every}
    for i, one in enumerate(every):
        assert all(place[number] < i and into[number] == one.src for number in one.after)
    expected = cost(forest, net, FLOAT_BYTES * floats).link_bytes
    assert link_bytes(of_gradient(forest, table), net) == pytest.approx(expected)
    steps_are_right(forest, every)


def steps_are_right(forest: Forest, every: list[Message]) -> None:
    of = [steps(forest, node) for node in range(len(forest.nodes))]
    for one in every:
        up, down = of[one.src]
        assert one.what.step == (up if one.what.phase == "up" else down)[one.what.klass]


class Post:
    """Engines of all nodes in this process, whose messages arrive when the test says so."""

    def __init__(self, forest: Forest, table: ChunkTable, make: Callable[..., Engine]) -> None:
        self.ends: dict[tuple[int, int], tuple[socket.socket, socket.socket]] = {}
        nodes = sorted({node for pair in pairs(forest) for node in pair})
        for node in nodes:
            for peer in neighbours(forest, node):
                self.ends[node, peer] = socket.socketpair()
                self.ends[node, peer][1].setblocking(False)
        self.wires = {node: [(at, wire) for at, (_, wire) in self.ends.items() if at[0] == node] for node in nodes}
        self.waiting: dict[tuple[int, int], bytearray] = defaultdict(bytearray)
        self.engines = {}
        for node in nodes:
            sockets = {peer: self.ends[node, peer][0] for peer in neighbours(forest, node)}
            gradient = np.ones(table.total_floats, np.float32) if node in forest.workers else None
            self.engines[node] = make(node, forest, table, sockets, gradient)

    def collect(self, node: int) -> None:
        """Take all that a node has handed to the kernel."""
        self.engines[node].poll(0.0)
        for at, wire in self.wires[node]:
            with suppress(BlockingIOError):
                while True:
                    self.waiting[at] += wire.recv(1 << 20)

    def deliver(self, message: Message) -> int:
        """Hand the next message between two nodes to the receiver; return its header."""
        waiting = self.waiting[message.src, message.dst]
        size = 4 + message.bytes
        for _ in range(100):
            if len(waiting) < size:
                self.collect(message.src)
        self.ends[message.dst, message.src][1].sendall(waiting[:size])
        word = int.from_bytes(waiting[:4], "big")
        del waiting[:size]
        here = self.ends[message.dst, message.src][0]
        for _ in range(100):
            self.collect(message.dst)
            if not struct.unpack("i", fcntl.ioctl(here, termios.FIONREAD, bytes(4)))[0]:
                break
        self.collect(message.dst)
        return word

    def close(self) -> None:
        for engine in self.engines.values():
            engine.close()
        for _, wire in self.ends.values():
            wire.close()


def plays_as_the_engine(
    forest: Forest, table: ChunkTable, make: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch | None = None
) -> int:
    """Deliver messages in the order of the plan, and hold each against what its sender's connection has next."""
    pushed: dict[Any, deque[tuple[int, int]]] = defaultdict(deque)
    if monkeypatch:
        push, owner = Bundle.push, {}

        def note(self: Bundle, word: int, payload: memoryview, *more: Any) -> None:
            pushed[owner[id(self)]].append((self.node, word & (1 << 31) | word & ((1 << 29) - 1)))
            push(self, word, payload, *more)

        monkeypatch.setattr(Bundle, "push", note)
    post = Post(forest, table, make)
    if monkeypatch:
        owner.update({id(one): node for node, made in post.engines.items() for one in made._by_node.values()})
    count = 0
    try:
        for node, engine in post.engines.items():
            for bucket in range(table.buckets):
                engine.start(bucket)
            post.collect(node)
        for message in messages(forest, table):
            expected = (message.what.phase == "down") << 31 | message.what.chunk
            if monkeypatch:
                assert pushed[message.src].popleft() == (message.dst, expected), message
            assert post.deliver(message) & ~(3 << 29) == expected, message
            count += 1
        assert not any(post.waiting.values())
        assert not any(pushed.values())
        for engine in post.engines.values():
            engine.wait(0.1)
    finally:
        post.close()
    return count


@pytest.mark.parametrize(
    ("scheme", "network", "buckets"),  # one bucket or several for every other forest, and both where networks add
    [
        (*case, buckets)
        for number, case in enumerate(SUITE)
        for buckets in ((1, 3) if "ina" in case[1] else ((1, 3)[number % 2],))
    ],
)
def test_order_is_that_of_the_engine(
    topology: Build, monkeypatch: pytest.MonkeyPatch, scheme: str, network: str, buckets: int
) -> None:
    """Chunks, windows and the gates of exponents among them; over all connections of a node."""
    net = topology(network)
    forest = replace(build(scheme, net, [200, 200, 104]), run_by=None)
    table = table_of(forest, buckets, 60, 504)
    assert plays_as_the_engine(forest, table, Engine, monkeypatch) > 100


@pytest.mark.parametrize(("scheme", "network"), [case for case in SUITE if "ina" not in case[1]])
def test_order_on_each_connection_is_that_of_the_compiled_engine(topology: Build, scheme: str, network: str) -> None:
    net = topology(network)
    forest = replace(build(scheme, net, [200, 200, 104]), run_by=None)
    assert plays_as_the_engine(forest, table_of(forest, 2, 60, 504), CompiledEngine) > 100


@pytest.mark.parametrize("make", [Engine, CompiledEngine])
@given(seed=st.integers(0, 2**32), window=st.integers(0, 3))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_with_windows_on_any_trees(
    random_forest: Callable[..., Forest], make: Callable[..., Engine], seed: int, window: int
) -> None:
    forest = replace(random_forest(seed, 6, 4, 3), window=window)
    assert plays_as_the_engine(forest, table_of(forest, 2, 12, 90), make) > 0


def test_a_window_holds_chunks_back_until_a_sum(topology: Build) -> None:
    forest = build("switchml(slots=2)", topology("star(hosts=2,ina=all)"), [])
    sent = [one for one in messages(forest, table_of(forest, 1, 4, 6)) if one.src in (0, 2) and one.dst in (0, 2)]
    (exponents,) = {one.what.chunk for one in sent if one.what.chunk >= 6} - {7, 8}
    first = next(one for one in sent if (one.what.phase, one.what.chunk) == ("up", 0))
    third = next(one for one in sent if (one.what.phase, one.what.chunk) == ("up", 2))
    by_number = {one.number: (one.what.phase, one.what.chunk) for one in sent}
    assert [by_number[number] for number in first.after] == [("down", exponents)]
    assert [by_number[number] for number in third.after] == [("down", 7), ("down", 0)]


@pytest.mark.parametrize("scheme", ["ring", "ps", "halving_doubling"])
def test_a_plan_of_512_workers_needs_no_list_of_all(scheme: str) -> None:
    """All of its 0.5 million messages would take 150 MB."""
    forest = build(scheme, build_topology("star(hosts=512)", rate_bps=10**9), [])
    table = cut(forest, 10**6, [(0, 10**6)], 2**17)
    tracemalloc.start()
    some = list(itertools.islice(messages(forest, table), 5_000))
    first = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(some) == 5_000
    assert first < 32 * 2**20


def test_they_are_those_of_the_plan_of_each_node(topology: Build) -> None:
    net = topology(RACKS.format(",ina=all"))
    forest = build("switchml(slots=6)", net, [])
    table = table_of(forest, 2, 40, 720)
    got = Counter((one.src, one.dst) for one in messages(forest, table))
    for node in range(len(net.nodes)):
        expected = {peer: count for peer, (count, _) in plan(node, forest, table).expected.items() if count}
        assert expected == {src: count for (src, dst), count in got.items() if dst == node}
