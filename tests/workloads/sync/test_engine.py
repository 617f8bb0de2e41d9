"""The engine over real TCP: exact sums, overlapping iterations, and errors that name the neighbour."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.job import Peer
from testbed.workloads.sync.chunks import ChunkTable, cut
from testbed.workloads.sync.compiled import CompiledEngine
from testbed.workloads.sync.connection import LAST_PACKET_BYTES
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.transport import connect

Build = Callable[..., Topology]
OnEveryNode = Callable[..., dict[int, object]]
Sockets = dict[int, socket.socket]
Make = Callable[..., Engine]
LIMIT_S = 30.0


def mixed(node: int, *args: Any, **more: Any) -> Engine:
    return (CompiledEngine if node % 2 else Engine)(node, *args, **more)


@pytest.fixture(params=[Engine, CompiledEngine, mixed], ids=["python", "compiled", "mixed"])
def make(request: pytest.FixtureRequest) -> Make:
    """What both do is tested with both, and with some processes that have the one, and some the other."""
    found: Make = request.param
    return found


@lru_cache(64)
def gradient_of(worker: int, iteration: int, floats: int) -> np.ndarray:
    """Small integers, so that float32 sums are exact in any order. All nodes look at one array."""
    return np.random.default_rng((worker, iteration)).integers(-99, 99, floats).astype(np.float32)


@lru_cache(8)
def sum_of(workers: tuple[int, ...], iteration: int, floats: int) -> np.ndarray:
    return np.sum([gradient_of(worker, iteration, floats) for worker in workers], axis=0)


def trains(
    forest: Forest, table: ChunkTable, iterations: int, seed: int, make: Make
) -> Callable[[int, Sockets], object]:
    """A worker that checks every sum, with random pauses before buckets and barriers now and then."""

    def work(node: int, sockets: Sockets) -> object:
        pause, common = random.Random(seed * 1000 + node), random.Random(seed)
        is_worker = node in forest.workers
        gradient = np.empty(table.total_floats, np.float32)
        engine = make(node, forest, table, sockets, gradient if is_worker else None)
        engine.barrier(LIMIT_S)
        for i in range(iterations):
            gradient[:] = gradient_of(node, i, table.total_floats)
            ready = 0.0
            for bucket in range(table.buckets):
                if pause.random() < 0.3:
                    engine.poll(pause.choice([0.0, 0.003]))
                if pause.random() < 0.2:
                    time.sleep(0.004)
                ready = time.monotonic()
                engine.start(bucket)
            expected = sum_of(tuple(forest.workers), i, table.total_floats)
            for bucket in reversed(range(table.buckets)) if is_worker and pause.random() < 0.5 else ():
                engine.wait_bucket(bucket, LIMIT_S)
                for k in np.flatnonzero(table.bucket == bucket):
                    span = slice(table.start[k], table.stop[k])
                    assert np.array_equal(gradient[span], expected[span]), f"iteration {i}, bucket {bucket}"
            complete = engine.wait(LIMIT_S)
            assert complete <= time.monotonic()
            if is_worker:
                assert ready <= complete
                assert np.array_equal(gradient, expected), f"iteration {i}"
            if common.random() < 0.3:
                engine.barrier(LIMIT_S)
        return engine.wire_bytes

    return work


@pytest.mark.parametrize(
    ("scheme", "network", "floats", "chunk_bytes"),
    [
        ("ring", "star(hosts=1)", 10, 8),
        ("ring", "star(hosts=2)", 100_003, 4096),
        ("ring", "star(hosts=5)", 50_001, 1000),
        ("ps", "star(hosts=4)", 80_000, 32768),
        ("ps(place=tensor)", "star(hosts=3)", 30_000, 5000),
        ("bml", "bcube(n=3,k=2)", 40_000, 1024),
        ("bml", "bcube(n=2,k=3)", 24, 4),
        ("ps", "star(hosts=3)", 1_500_000, 1 << 20),
        ("multi_ring(strides=[1,3])", "star(hosts=4)", 40_000, 1024),
        ("halving_doubling", "star(hosts=7)", 40_000, 4096),
        ("halving_doubling(remainder=fold)", "star(hosts=5)", 40_000, 4096),
        ("bcube(base=3)", "star(hosts=6)", 40_000, 4096),
        ("double_binary_tree", "star(hosts=6)", 40_000, 4096),
        ("hierarchical_ps(across=ring)", "spine_leaf(racks=3,hosts_per_rack=2,spines=1)", 40_000, 4096),
        ("two_level", "spine_leaf(racks=2,hosts_per_rack=3,spines=1)", 40_000, 4096),
        ("h_ar", "spine_leaf(racks=2,hosts_per_rack=3,spines=1)", 40_000, 4096),
    ],
)
def test_sums_are_exact(
    topology: Build, on_every_node: OnEveryNode, scheme: str, network: str, floats: int, chunk_bytes: int, make: Make
) -> None:
    net = topology(network)
    forest = build(scheme, net, [floats // 2, floats // 10, floats - floats // 2 - floats // 10])
    table = cut(forest, floats, [(0, floats)], chunk_bytes)
    results = on_every_node(forest, list(net.hosts), trains(forest, table, 4, 1, make))
    payload = 2 * (net.host_count - 1) * 4 * floats
    sent = results.values()
    assert all(isinstance(count, int) for count in sent), sent
    assert sum(count for count in sent if isinstance(count, int)) >= 4 * payload


@pytest.mark.parametrize("scheme", ["ps(colocated=false,servers=3)", "ps(place=lpt,colocated=false,servers=2)"])
def test_servers_that_have_no_gradient(topology: Build, on_every_node: OnEveryNode, scheme: str, make: Make) -> None:
    net = topology("star(hosts=6)")
    forest = build(scheme, net, [20_000, 3_000, 7_000])
    table = cut(forest, 30_000, [(0, 30_000)], 4096)
    results = on_every_node(forest, list(net.hosts), trains(forest, table, 6, 2, make))
    assert all(isinstance(count, int) for count in results.values()), results


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), buckets=st.integers(1, 12), chunks=st.integers(1, 80), workers=st.integers(2, 5))
def test_priority_neither_deadlocks_nor_mixes_up(
    random_forest: Callable[..., Forest], on_every_node: OnEveryNode, seed: int, buckets: int, chunks: int, workers: int
) -> None:
    """Random trees over hosts of which some only add, buckets of any sizes opened at any moments, rounds that overlap,
    windows or none.

    Gradients are larger than the sockets' buffers, so that held connections really stop their senders.
    """
    draw = random.Random(seed)
    hosts = workers + draw.randint(0, 2)
    forest = replace(random_forest(seed, hosts, workers, draw.randint(1, 5)), window=draw.choice([0, 1, 3]))
    floats = draw.choice([200, 40_000, 300_000])
    edges = sorted({0, floats, *(draw.randrange(1, floats) for _ in range(buckets - 1))})
    spans = list(itertools.pairwise(edges))
    draw.shuffle(spans)
    table = cut(forest, floats, spans, max(4, 4 * floats // chunks))
    results = on_every_node(forest, list(range(hosts)), trains(forest, table, 3, seed, partial(Engine, priority=True)))
    assert all(isinstance(count, int) for count in results.values()), results


@pytest.mark.parametrize(
    ("seed", "make"), list(zip(range(15), 5 * [Engine, CompiledEngine, mixed], strict=True)), indirect=["make"]
)
def test_random_forests_chunks_and_delays(
    random_forest: Callable[..., Forest], on_every_node: OnEveryNode, seed: int, make: Make
) -> None:
    """Random trees (with hosts that only add), buckets in random order, many iterations, ranks out of step."""
    draw = random.Random(seed)
    hosts = draw.randint(2, 7)
    forest = random_forest(seed, hosts, draw.randint(1, hosts), draw.randint(1, 6))
    forest = replace(forest, window=draw.choice([0, 0, 1, 2, 5]))
    floats = draw.choice([60, 999, 40_000, 300_000])
    edges = sorted({0, floats, *(draw.randrange(1, floats) for _ in range(draw.randint(0, 4)))})
    buckets = list(itertools.pairwise(edges))[::-1]
    table = cut(forest, floats, buckets, max(4, floats // draw.randint(1, 60)))
    results = on_every_node(forest, list(range(hosts)), trains(forest, table, 12, seed, make))
    assert all(isinstance(count, int) for count in results.values()), results


def test_bytes_on_the_wire_are_the_cost_models_and_the_headers(
    topology: Build, on_every_node: OnEveryNode, make: Make
) -> None:
    net = topology("star(hosts=3)")
    forest = build("ring", net, [])
    table = cut(forest, 3000, [(0, 3000)], 400)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(3000, np.float32))
        engine.start(0)
        engine.wait(LIMIT_S)
        return engine.wire_bytes

    assert on_every_node(forest, [0, 1, 2], work) == dict.fromkeys(range(3), 2 * 2 * (4000 + 4 * 10))


def test_the_last_bytes_of_an_iteration_are_a_packet_of_their_own(
    topology: Build, on_every_node: OnEveryNode, make: Make
) -> None:
    """With one server, a worker sends one message and gets one, each of which fits one packet of loopback."""
    net = topology("star(hosts=2)")
    forest = build("ps(servers=1)", net, [])
    table = cut(forest, 5000, [(0, 5000)], 20_000)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(5000, np.float32))
        (sock,) = sockets.values()
        found = []
        for _ in range(3):
            before = data_packets(sock)
            engine.start(0)
            engine.wait(LIMIT_S)
            found.append(data_packets(sock) - before)
        return found

    assert on_every_node(forest, [0, 1], work) == {key: [2, 2, 2] for key in range(2)}


def data_packets(sock: socket.socket) -> int:
    """How many TCP has sent with data (``tcpi_data_segs_out`` in linux/tcp.h)."""
    found: int = struct.unpack_from("=I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), 156)[0]
    return found


@pytest.mark.parametrize("scheme", ["ring", "ps", "halving_doubling", "switchml"])
def test_it_is_known_where_the_last_packet_begins(
    topology: Build, on_every_node: OnEveryNode, scheme: str, make: Make
) -> None:
    net = topology("spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)" if scheme == "switchml" else "star(hosts=4)")
    forest = build(scheme, net, [])
    kind = Engine if forest.fixed is not None else make
    table = cut(forest, 30_001, [(0, 30_001)], 8192)
    nodes = sorted({*forest.workers, *np.flatnonzero((forest.reduce >= -1).any(axis=0)).tolist()})

    def work(node: int, sockets: Sockets) -> object:
        engine = kind(node, forest, table, sockets, np.zeros(30_001, np.float32) if node in forest.workers else None)
        found = set()
        for _ in range(2):
            before = {one.node: one.sent_bytes for one in engine._connections}
            engine.start(0)
            engine.wait(LIMIT_S)
            sent = {one.node: one.sent_bytes - before[one.node] for one in engine._connections}
            found |= {sent[peer] - engine._whole_bytes[peer] for peer in sent}
        return found

    assert on_every_node(forest, nodes, work) == {key: {LAST_PACKET_BYTES} for key in nodes}


def test_a_bucket_is_not_touched_before_it_is_started(topology: Build, on_every_node: OnEveryNode, make: Make) -> None:
    """Rank 1 completes bucket 1 late, when all that the others have of it has long arrived."""
    forest = build("ps", topology("star(hosts=3)"), [])
    table = cut(forest, 200_000, [(100_000, 200_000), (0, 100_000)], 4096)

    def work(node: int, sockets: Sockets) -> object:
        gradient = np.full(200_000, node + 1, np.float32)
        engine = make(node, forest, table, sockets, gradient)
        engine.start(0)
        if node == 1:
            engine.poll(0.5)
            untouched = bool((gradient[:100_000] == 2).all())
        engine.start(1)
        engine.wait(LIMIT_S)
        return bool((gradient == 6).all()) and (node != 1 or untouched)

    assert on_every_node(forest, [0, 1, 2], work) == {0: True, 1: True, 2: True}


def test_the_moment_at_which_a_bucket_was_complete_is_kept(
    topology: Build, on_every_node: OnEveryNode, make: Make
) -> None:
    forest = build("ring", topology("star(hosts=2)"), [])
    table = cut(forest, 2000, [(1000, 2000), (0, 1000)], 400)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(2000, np.float32))
        began_s = time.monotonic()
        engine.start(0)
        engine.start(1)
        complete_s = [engine.wait_bucket(bucket, LIMIT_S) for bucket in (0, 1)]
        seen_s = time.monotonic()
        engine.poll(0.01)
        assert [engine.wait_bucket(bucket, LIMIT_S) for bucket in (0, 1)] == complete_s
        assert max(complete_s) <= engine.wait(LIMIT_S) <= seen_s
        return began_s <= min(complete_s) and max(complete_s) <= seen_s

    assert on_every_node(forest, [0, 1], work) == {0: True, 1: True}


def test_a_neighbour_that_closes_is_named(topology: Build, on_every_node: OnEveryNode, make: Make) -> None:
    forest = build("ring", topology("star(hosts=3)"), [])
    table = cut(forest, 900_000, [(0, 900_000)], 4096)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(900_000, np.float32))
        engine.start(0)
        if node == 1:
            engine.close()
            return None
        return engine.wait(LIMIT_S)

    results = on_every_node(forest, [0, 1, 2], work)
    errors = {node: str(result) for node, result in results.items() if isinstance(result, WorkerError)}
    assert set(errors) == {0, 2}
    assert any(text.startswith("lost the connection to h1: ") for text in errors.values())


def test_a_neighbour_that_left_before_the_iteration_is_named(
    topology: Build, on_every_node: OnEveryNode, make: Make
) -> None:
    forest = build("ring", topology("star(hosts=2)"), [])
    table = cut(forest, 100, [(0, 100)], 64)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(100, np.float32))
        engine.barrier(LIMIT_S)
        if node == 1:
            return None
        engine.poll(0.3)
        with pytest.raises(WorkerError, match="lost the connection to h1: it was closed"):
            engine.start(0)
        return "named"

    assert on_every_node(forest, [0, 1], work)[0] == "named"


def test_ends_one_after_another_without_an_error(topology: Build, on_every_node: OnEveryNode, make: Make) -> None:
    """A rank that is done may close while its neighbours still finish the last iteration."""
    forest = build("ps", topology("star(hosts=5)"), [])
    table = cut(forest, 100_000, [(0, 100_000)], 2048)

    def work(node: int, sockets: Sockets) -> object:
        gradient = np.ones(100_000, np.float32)
        engine = make(node, forest, table, sockets, gradient)
        for _ in range(5):
            gradient[:] = 1
            engine.start(0)
            engine.wait(LIMIT_S)
        engine.close()
        return float(gradient.sum())

    assert on_every_node(forest, list(range(5)), work) == dict.fromkeys(range(5), 500_000.0)


def test_who_is_waited_for(topology: Build, on_every_node: OnEveryNode, make: Make) -> None:
    forest = build("ps", topology("star(hosts=3)"), [])
    table = cut(forest, 300, [(0, 300)], 64)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(300, np.float32))
        engine.barrier(LIMIT_S)
        if node == 2:
            time.sleep(1.5)
            return None
        engine.start(0)
        return engine.wait(LIMIT_S if node else 0.4)

    results = on_every_node(forest, [0, 1, 2], work)
    assert isinstance(results[0], TrialTimeoutError)
    assert results[0].problem == "h0 made no progress for 0.4 s; it waits for chunks from h1, h2"


@pytest.mark.parametrize(
    ("scheme", "network", "last"),
    [
        ("bml", "bcube(n=2,k=2)", 3),
        ("ps(colocated=false,servers=2)", "star(hosts=4)", 0),
        ("ps(colocated=false,servers=2)", "star(hosts=4)", 3),  # not in a tree of class 0
    ],
)
def test_a_barrier_waits_for_the_last(
    topology: Build, on_every_node: OnEveryNode, scheme: str, network: str, last: int, make: Make
) -> None:
    forest = build(scheme, topology(network), [])
    table = cut(forest, 80, [(0, 80)], 64)

    def work(node: int, sockets: Sockets) -> object:
        engine = make(node, forest, table, sockets, np.zeros(80, np.float32))
        engine.barrier(LIMIT_S)
        if node == last:
            time.sleep(0.3)
        called = time.monotonic()
        engine.barrier(LIMIT_S)
        return called, time.monotonic()

    times = list(on_every_node(forest, [0, 1, 2, 3], work).values())
    assert all(isinstance(pair, tuple) for pair in times), times
    last_call = max(pair[0] for pair in times if isinstance(pair, tuple))
    assert all(pair[1] >= last_call for pair in times if isinstance(pair, tuple))


@pytest.mark.parametrize("chunk", [0, 3])
def test_a_chunk_that_does_not_belong_here_is_named(topology: Build, chunk: int, make: Make) -> None:
    """Chunk 0 starts at this node, so nobody may send a part of it; chunk 3 does not exist."""
    forest = build("ring", topology("star(hosts=2)"), [])
    table = cut(forest, 2, [(0, 2)], 64)
    here, there = socket.socketpair()
    with here, there:
        engine = make(1, forest, table, {0: here}, np.zeros(2, np.float32))
        engine.start(0)
        there.sendall(chunk.to_bytes(4, "big") + bytes(4))
        with pytest.raises(WorkerError) as caught:
            engine.wait(2.0)
    assert caught.value.problem == f"h1 got chunk {chunk} from h0, and does not expect it"


@pytest.mark.parametrize("phase", [0, 1 << 31], ids=["partial sum", "sum"])
def test_a_chunk_that_two_neighbours_begin_before_either_ends_is_refused(
    topology: Build, phase: int, make: Make
) -> None:
    """In a ring, the partial sum of each chunk comes from one neighbour, and so does its sum."""
    forest = build("ring", topology("star(hosts=3)"), [])
    table, node = cut(forest, 48, [(0, 48)], 64), 1
    chunk = next(
        k
        for k, klass in enumerate(table.klass)
        if (forest.reduce[klass] == node).any() and forest.broadcast[klass, node] >= 0
    )
    begun = (phase | chunk).to_bytes(4, "big") + bytes(8)
    pairs = {peer: socket.socketpair() for peer in (0, 2)}
    try:
        engine = make(node, forest, table, {peer: here for peer, (here, _) in pairs.items()}, np.zeros(48, np.float32))
        engine.start(0)
        for _, there in pairs.values():
            there.sendall(begun)
        with pytest.raises(WorkerError, match=rf"h1 got chunk {chunk} from h[02], and does not expect it"):
            engine.wait(0.5)
    finally:
        for sockets in pairs.values():
            for end in sockets:
                end.close()


def test_misuse_is_refused(topology: Build, make: Make) -> None:
    forest = build("ring", topology("star(hosts=1)"), [])
    table = cut(forest, 8, [(0, 4), (4, 8)], 64)
    with pytest.raises(ValueError, match="gradient is float64"):
        make(0, forest, table, {}, np.zeros(8))
    engine = make(0, forest, table, {}, np.zeros(8, np.float32))
    engine.start(0)
    with pytest.raises(ValueError, match="started twice"):
        engine.start(0)
    with pytest.raises(ValueError, match="before every bucket"):
        engine.wait(1.0)
    with pytest.raises(ValueError, match="a barrier within"):
        engine.barrier(1.0)


def _killed_member(
    node: int, forest: Forest, peers: tuple[Peer, ...], told: multiprocessing.SimpleQueue, make: Make
) -> None:
    table = cut(forest, 600_000, [(0, 600_000)], 65536)
    engine = make(node, forest, table, connect(node, peers, forest.nodes, "reno", 20.0), np.zeros(600_000, np.float32))
    engine.barrier(LIMIT_S)
    if node == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            engine.start(0)
            engine.wait(LIMIT_S)
    except WorkerError as error:
        told.put((node, error.problem))


def test_a_killed_process_is_named(
    topology: Build, loopback_peers: Callable[..., tuple[Peer, ...]], make: Make
) -> None:
    forest = build("ps", topology("star(hosts=3)"), [])
    context = multiprocessing.get_context("fork")  # what a new Python would import takes longer
    told = context.SimpleQueue()
    members = [
        context.Process(target=_killed_member, args=(node, forest, loopback_peers(forest, node), told, make))
        for node in range(3)
    ]
    for member in members:
        member.start()
    for member in members:
        member.join(60)
    assert [member.exitcode for member in members] == [0, 0, -signal.SIGKILL]
    problems = dict(told.get() for _ in range(2))
    assert any("lost the connection to h2" in problem for problem in problems.values()), problems


def mesh(topology: Topology, classes: int) -> Forest:
    """A forest in which any two hosts may be neighbours."""
    return build(f"two_level(groups=[{[*topology.hosts]}],classes={classes},tune=true)".replace(" ", ""), topology, [])


def other_trees(forest: Forest, draw: random.Random) -> Forest:
    """The forest along random trees: each host's parent is drawn of those before it in a random order."""
    trees = forest.reduce.copy()
    for tree in trees:
        order = draw.sample(forest.workers, len(forest.workers))
        for place, host in enumerate(order):
            tree[host] = draw.choice(order[:place]) if place else ROOT
    return replace(forest, reduce=trees, broadcast=trees)


def switches(forest: Forest, table: ChunkTable, iterations: int, seed: int, make: Make) -> Callable[..., object]:
    """A worker that checks every sum, and the tally's, along trees that change before most iterations."""

    def work(node: int, sockets: Sockets) -> object:
        pause, common = random.Random(seed * 1000 + node), random.Random(seed)
        gradient = np.empty(table.total_floats, np.float32)
        with make(node, forest, table, sockets, gradient) as engine:
            engine.barrier(LIMIT_S)
            for i in range(iterations):
                if common.random() < 0.8:
                    engine.replan(other_trees(forest, common))
                gradient[:] = gradient_of(node, i, table.total_floats)
                engine.tally[0] = node + i
                for bucket in range(table.buckets):
                    engine.poll(pause.choice([0.0, 0.002]))
                    engine.start(bucket)
                engine.wait(LIMIT_S)
                assert np.array_equal(
                    gradient, sum(gradient_of(worker, i, table.total_floats) for worker in forest.workers)
                ), f"iteration {i}"
                assert engine.tally[0] == sum(worker + i for worker in forest.workers)
                if common.random() < 0.3:
                    engine.barrier(LIMIT_S)
            return engine.wire_bytes

    return work


@pytest.mark.parametrize(("hosts", "classes", "floats"), [(1, 1, 10), (2, 3, 999), (5, 4, 30_001)])
def test_sums_stay_exact_while_trees_change(
    topology: Build, on_every_node: OnEveryNode, hosts: int, classes: int, floats: int, make: Make
) -> None:
    forest = mesh(topology(f"star(hosts={hosts})"), classes)
    table = replace(cut(forest, floats, [(0, floats // 3), (floats // 3, floats)], 4096), has_tally=True)
    sent = on_every_node(forest, list(forest.workers), switches(forest, table, 60, hosts, make))
    if errors := [one for one in sent.values() if isinstance(one, Exception)]:
        raise errors[0]
    edges = 2 * (hosts - 1)
    assert sum(sent.values()) >= 60 * edges * 4 * (floats + 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Engine, CompiledEngine], ids=["python", "compiled"])
def test_a_plan_that_does_not_fit_is_refused(topology: Build, make: Make) -> None:
    net = topology("star(hosts=3)")
    chain = replace(mesh(net, 1), reduce=np.array([[1, 2, ROOT, ABSENT]], np.int32))
    chain = replace(chain, broadcast=chain.reduce)
    table = cut(chain, 30, [(0, 30)], 64)
    here, there = socket.socketpair()
    with here, there, make(0, chain, table, {1: here}, np.zeros(30, np.float32)) as engine:
        with pytest.raises(ValueError, match="other classes"):
            engine.replan(mesh(net, 2))
        met, strangers = np.array([[1, ROOT, 1, ABSENT]], np.int32), np.array([[2, 2, ROOT, ABSENT]], np.int32)
        engine.replan(replace(chain, reduce=met, broadcast=met))
        with pytest.raises(ValueError, match="1 neighbours that it has not met"):
            engine.replan(replace(chain, reduce=strangers, broadcast=strangers))
        engine.start(0)
        with pytest.raises(ValueError, match="within an iteration"):
            engine.replan(chain)
