"""Servers and workers over loopback, a thread each: what is applied, what comes back, and what goes wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from socket import socket, socketpair
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, TrialTimeoutError, WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.asynchronous.ledger import disagreement, problem, staleness
from testbed.workloads.kinds.asynchronous.parameter_server import Client, Replica, Server
from testbed.workloads.kinds.asynchronous.plan import servers
from testbed.workloads.kinds.asynchronous.plan import staleness as allowed
from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build

Run = Callable[..., dict[int, Any]]
FLOATS = 50_000
ITERATIONS = 5


@pytest.fixture
def forest(topology: Callable[..., Topology]) -> Callable[[str, int], Forest]:
    return lambda scheme, hosts: build(scheme, topology(f"star(hosts={hosts})"), [FLOATS])


def gradient_of(rank: int, iteration: int) -> np.ndarray:
    return np.random.default_rng([rank, iteration]).integers(-8, 8, FLOATS).astype(np.float32)


def apply_all(server: Server, silence_s: float = 5) -> None:
    assert list(server.serve(1, 0, 1, silence_s)) == [1]


def serve(forest: Forest, node: int, sockets: Mapping[int, socket], updates: int) -> Server:
    served = servers(forest)
    start, stop = spans(FLOATS, len(served))[served.index(node)]
    total = np.zeros(stop - start, np.float32)
    with Server(
        forest.nodes[node], forest, sockets, (total, lambda one: np.add(total, one, out=total)), updates
    ) as server:
        server.barrier(5)
        apply_all(server)
        server.barrier(5)
    return server


def work(
    forest: Forest,
    node: int,
    sockets: Mapping[int, socket],
    slow_s: float = 0.0,
    done: Callable[[], object] = lambda: None,
) -> list[dict[str, float]]:
    """What a worker saw of each of its updates; all weights that it gets are the sums of the updates told."""
    gradient, weights, told = np.empty(FLOATS, np.float32), np.zeros(FLOATS, np.float32), np.zeros(FLOATS)
    seen = []

    def learn(updates: Sequence[tuple[int, int]], span: Span) -> None:
        part = slice(*span)
        for one in updates:
            told[part] += gradient_of(*one)[part]

    with Client(forest.nodes[node], forest, sockets, gradient, weights, learn) as client:
        client.barrier(5)
        while client.goes_on:
            gradient[:] = gradient_of(node, len(seen))
            time.sleep(slow_s)
            client.start(0)
            client.wait(5)
            done()
            assert np.array_equal(weights, told)
            seen.append(client.seen)
        client.barrier(5)
        assert client.congestion_control == "reno"
    return seen


@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("scheme", ["async_ps(servers={})", "ssp(staleness=1,servers={})"])
def test_several_servers_end_with_the_same_updates(
    forest: Callable[[str, int], Forest], on_every_node: Run, scheme: str, servers: int
) -> None:
    made = forest(scheme.format(servers), 3 + servers)
    everyone = list(range(3 + servers))

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node >= 3:
            return serve(made, node, sockets, 3 * ITERATIONS)
        return work(made, node, sockets, slow_s=0.05 if node == 0 else 0.0)

    found = on_every_node(made, everyone, member)
    assert all(isinstance(found[node], Server) for node in everyone[3:]), found
    orders = [found[node].ledger.order for node in everyone[3:]]
    assert disagreement(orders) == ""
    for number, order in enumerate(orders):
        assert problem(order, 3, 3 * ITERATIONS, allowed(made)) == ""
        update, version = (f"{name}_{number}" if number else name for name in ("update", "version"))
        known = sorted((one[update], rank, one[version]) for rank in range(3) for one in found[rank])
        assert known == [(at, one.rank, one.version) for at, one in enumerate(order)]
    stale = {(one.rank, one.iteration): at - one.version for at, one in enumerate(orders[0])}
    for order in orders[1:]:
        stale |= {(o.rank, o.iteration): max(stale[o.rank, o.iteration], n - o.version) for n, o in enumerate(order)}
    for rank in range(3):
        assert [one["staleness"] for one in found[rank]] == [stale[rank, i] for i in range(len(found[rank]))]
        assert all(one["held_s"] >= 0 for one in found[rank])


def test_a_worker_waits_for_the_server_that_is_held_up(
    forest: Callable[[str, int], Forest], on_every_node: Run
) -> None:
    """The second of two servers comes late to the first update: nobody has new weights before, and nobody is lost."""
    made = forest("async_ps(servers=2)", 4)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node < 2:
            return work(made, node, sockets)
        if node == 2:
            return serve(made, node, sockets, 4)
        weights = np.zeros(FLOATS // 2, np.float32)
        with Server("h3", made, sockets, (weights, lambda one: np.add(weights, one, out=weights)), 4) as server:
            server.barrier(5)
            time.sleep(0.3)
            began_s = time.monotonic()
            assert server.ledger.version == 0
            apply_all(server)
            server.barrier(5)
        return time.monotonic() - began_s

    found = on_every_node(made, [0, 1, 2, 3], member)
    assert found[2].ledger.is_complete
    assert found[3] < 5


def test_a_server_answers_when_its_replica_has_the_update(
    forest: Callable[[str, int], Forest], on_every_node: Run
) -> None:
    """The replica comes late to the updates: nobody has weights before."""
    made = forest("async_ps(replication=chain)", 4)
    answered_s: list[float] = []
    total = np.zeros(FLOATS, np.float32)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node < 2:
            seen = work(made, node, sockets, done=lambda: answered_s.append(time.monotonic()))
            return [one["update"] for one in seen]
        if node == 2:
            return serve(made, node, sockets, 6)
        with Replica("h3", made, sockets, (total, lambda one: np.add(total, one, out=total)), 6) as replica:
            replica.barrier(5)
            time.sleep(0.3)
            began_s = time.monotonic()
            assert list(replica.serve(1, 0, 6, 5)) == [6]
            replica.barrier(5)
        return replica.kept, began_s

    found = on_every_node(made, [0, 1, 2, 3], member)
    kept, began_s = found[3]
    assert kept == [(one.rank, one.iteration) for one in found[2].ledger.order]
    assert sorted(found[0] + found[1]) == list(range(6))
    assert min(answered_s) > began_s
    assert np.array_equal(total, sum(gradient_of(*one) for one in kept))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"\x10\0\0\x05hello", "a note of 5 bytes"),
        (b"\x20\0\0\0" + bytes(4 * FLOATS), "floats out of turn"),
        (b"\x50\0\0\0", "word of an update that is kept out of turn"),
    ],
    ids=range(3),
)
def test_what_no_server_says_to_a_replica_is_refused_by_name(
    forest: Callable[[str, int], Forest], said: bytes, problem: str
) -> None:
    ours, theirs = socketpair()
    made = forest("async_ps(replication=chain)", 3)
    with theirs, Replica("h2", made, {1: ours}, (np.zeros(FLOATS, np.float32), lambda _: None), 4) as replica:
        threading.Thread(target=theirs.sendall, args=(said,), daemon=True).start()
        with pytest.raises(WorkerError, match=f"h2 got {problem} from h1, and does not expect it"):
            list(replica.serve(1, 0, 4, 5))


@pytest.mark.parametrize("said", [b"\x50\0\0\0", b"\x20\0\0\0", b"\x10\0\0\0"], ids=range(3))
def test_what_no_replica_says_is_refused_by_name(forest: Callable[[str, int], Forest], said: bytes) -> None:
    ours, theirs = socketpair()
    made = forest("async_ps(replication=chain)", 3)
    with theirs, Server("h1", made, {2: ours}, (np.zeros(FLOATS, np.float32), lambda _: None), 4) as server:
        theirs.sendall(said)
        with pytest.raises(WorkerError, match=r"h1 got .* from h2, and does not expect it"):
            apply_all(server)


def test_a_replica_that_ends_is_named(forest: Callable[[str, int], Forest], on_every_node: Run) -> None:
    made = forest("async_ps(replication=chain)", 3)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node == 0:
            return work(made, node, sockets)
        if node == 1:
            return serve(made, node, sockets, 6)
        with Replica("h2", made, sockets, (np.zeros(FLOATS, np.float32), lambda _: None), 6) as replica:
            replica.barrier(5)
        return None

    found = on_every_node(made, [0, 1, 2], member)
    assert isinstance(found[1], NeighbourError)
    assert "lost the connection to h2" in str(found[1])


def test_a_barrier_of_several_servers_holds_each_of_them(
    forest: Callable[[str, int], Forest], on_every_node: Run
) -> None:
    """The last server comes late, and nobody leaves before; without a second round the first server would."""
    made = forest("async_ps(servers=2)", 4)
    left_s: dict[int, float] = {}
    came_s: dict[int, float] = {}
    all_left = threading.Barrier(4)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        part = np.zeros(FLOATS // 2, np.float32)
        if node < 2:
            one: Client | Server = Client(made.nodes[node], made, sockets, gradient_of(0, 0), gradient_of(0, 0))
        else:
            one = Server(made.nodes[node], made, sockets, (part, lambda _: None), 2)
        with one:
            time.sleep(0.3 if node == 3 else 0.0)
            came_s[node] = time.monotonic()
            one.barrier(5)
            left_s[node] = time.monotonic()
            all_left.wait(5)
        return None

    found = on_every_node(made, [0, 1, 2, 3], member)
    assert found == dict.fromkeys(range(4))
    assert min(left_s.values()) >= max(came_s.values())


@pytest.mark.parametrize("scheme", ["async_ps", "ssp(staleness=0)", "ssp(staleness=1)"])
def test_everyone_gets_the_sum_of_what_the_server_applied(
    forest: Callable[[str, int], Forest], on_every_node: Run, scheme: str
) -> None:
    made = forest(scheme, 4)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node == 3:
            return serve(made, node, sockets, 3 * ITERATIONS)
        return work(made, node, sockets, slow_s=0.1 if node == 0 else 0.0)

    found = on_every_node(made, [0, 1, 2, 3], member)
    assert isinstance(found[3], Server), found
    order = found[3].ledger.order
    assert problem(order, 3, 3 * ITERATIONS, allowed(made)) == ""
    known = sorted((one["update"], rank, one["version"]) for rank in range(3) for one in found[rank])
    assert known == [(at, one.rank, one.version) for at, one in enumerate(order)]
    stale = {one["update"]: one["staleness"] for rank in range(3) for one in found[rank]}
    assert [stale[at] for at in range(len(order))] == staleness(order)
    if scheme == "async_ps":
        assert len(found[0]) < ITERATIONS < max(len(found[1]), len(found[2]))  # the slow one did less
    if scheme == "ssp(staleness=0)":
        assert [len(found[rank]) for rank in range(3)] == [ITERATIONS] * 3
        assert sum(one["held_s"] for one in found[1]) > sum(one["held_s"] for one in found[0])


def test_a_worker_that_ends_is_named(forest: Callable[[str, int], Forest], on_every_node: Run) -> None:
    made = forest("async_ps", 3)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node == 2:
            return serve(made, node, sockets, 100)
        if node == 1:
            return work(made, node, sockets)
        client = Client("h0", made, sockets, gradient_of(0, 0), np.zeros(FLOATS, np.float32))
        client.barrier(5)
        client.start(0)
        client.wait(5)
        return None  # its connection is closed

    found = on_every_node(made, [0, 1, 2], member)
    assert isinstance(found[2], NeighbourError)
    assert "lost the connection to h0" in str(found[2])
    assert "lost the connection to h2" in str(found[1])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_server_may_end_before_its_last_weights_are_read(
    forest: Callable[[str, int], Forest], on_every_node: Run, workers: int
) -> None:
    made = forest("async_ps", workers + 1)
    zeros = np.zeros(16, np.float32)  # few, so that all of them and the end of the stream lie there together
    ended = threading.Event()

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node == workers:
            with Server(made.nodes[node], made, sockets, (zeros, lambda _: None), workers) as server:
                server.barrier(5)
                apply_all(server)
            ended.set()
            return server.ledger.is_complete
        with Client(made.nodes[node], made, sockets, zeros, zeros.copy()) as client:
            client.barrier(5)
            client.start(0)
            assert ended.wait(5)
            client.wait(5)
            return client.goes_on

    assert on_every_node(made, list(range(workers + 1)), member) == dict.fromkeys(range(workers), False) | {
        workers: True
    }


@pytest.mark.parametrize("first", ["server", "worker"])
def test_who_ended_before_a_barrier_is_named(
    forest: Callable[[str, int], Forest], on_every_node: Run, first: str
) -> None:
    made = forest("async_ps", 2)
    zeros = np.zeros(FLOATS, np.float32)
    ended = threading.Event()

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        with (
            Server("h1", made, sockets, (zeros, lambda _: None), 1)
            if node
            else Client("h0", made, sockets, zeros, zeros.copy())
        ) as one:
            one.barrier(5)
            if isinstance(one, Server):
                apply_all(one)
            else:
                one.start(0)
                one.wait(5)
            if isinstance(one, Server) == (first == "worker"):
                assert ended.wait(5)
                one.poll(0.1)
                one.barrier(5)
        ended.set()
        return None

    found = on_every_node(made, [0, 1], member)
    loser, gone = (0, 1) if first == "server" else (1, 0)
    assert isinstance(found[loser], NeighbourError)
    assert f"lost the connection to h{gone}" in str(found[loser])


def test_a_silent_worker_is_named_after_the_timeout(forest: Callable[[str, int], Forest], on_every_node: Run) -> None:
    made = forest("async_ps", 3)
    zeros = np.zeros(FLOATS, np.float32)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node < 2:
            client = Client(made.nodes[node], made, sockets, zeros, zeros.copy())
            client.barrier(5)
            if node == 1:
                client.start(0)
                client.wait(5)
            time.sleep(2)
            return None
        with Server("h2", made, sockets, (zeros, lambda _: None), 3) as server:
            server.barrier(5)
            apply_all(server, 0.3)
        return None

    found = on_every_node(made, [0, 1, 2], member)
    assert isinstance(found[2], TrialTimeoutError)
    assert found[2].problem == "h2 made no progress for 0.3 s; it waits for h0, h1"


def test_what_cannot_be_is_refused(forest: Callable[[str, int], Forest], on_every_node: Run) -> None:
    made = forest("async_ps", 3)
    zeros = np.zeros(FLOATS, np.float32)

    def member(node: int, sockets: Mapping[int, socket]) -> object:
        if node == 2:
            return serve(made, node, sockets, 4)
        client = Client(made.nodes[node], made, sockets, zeros, zeros.copy())
        client.barrier(5)
        if node == 0:
            sockets[2].sendall((15 << 28).to_bytes(4, "big"))
        client.wait(5)
        return None

    found = on_every_node(made, [0, 1, 2], member)
    assert isinstance(found[2], WorkerError)
    assert found[2].problem == "h2 got a message of kind 15 from h0, and does not expect it"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"\x30\0\0\0\x10\0\0\x05hello", "a note of 5 bytes"),
        (b"\x30\0\0\0\x10\0\0\x14" + bytes(20), "a note of 20 bytes"),
        (b"\x30\0\0\0\x10\0\0\x10" + bytes(8) + b"\x7f\xf8" + bytes(6), "weights held for nan s"),
        (
            b"\x30\0\0\0\x10\0\0\x18" + bytes(16) + b"\0\0\0\x07" + bytes(4),
            r"weights .* with updates \[\(7, 0\)\]",
        ),
        (b"\x1f\xff\xff\xff", "a message of kind 1 and 268,435,455 bytes"),
        (b"\x10\0\0\0", "a note"),
        (b"\x30\0\0\0\x30\0\0\0", "word of an iteration to follow"),
        (b"\x20\0\0\0" + bytes(4 * FLOATS), "floats"),
        (b"\x70\0\0\0", "a message of kind 7"),
    ],
    ids=range(9),
)
def test_what_no_server_says_is_refused_by_name(
    forest: Callable[[str, int], Forest], said: bytes, problem: str
) -> None:
    ours, theirs = socketpair()
    made = forest("async_ps", 2)
    with theirs, Client("h0", made, {1: ours}, gradient_of(0, 0), np.zeros(FLOATS, np.float32)) as client:
        client.start(0)
        threading.Thread(target=theirs.sendall, args=(said,), daemon=True).start()
        with pytest.raises(WorkerError, match=f"h0 got {problem}.* from h1, and does not expect it"):
            client.wait(5)


NOTE = b"\x10\0\0\x08" + bytes(8)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"\x10\0\0\x05hello", "a note of 5 bytes"),
        (b"\x1f\xff\xff\xff", "a message of kind 1 and 268,435,455 bytes"),
        (NOTE + NOTE, "a note out of turn"),
        (b"\x20\0\0\0" + bytes(16), "floats out of turn"),
        (NOTE + 2 * (b"\x20\0\0\0" + bytes(16)), "floats out of turn"),
        (NOTE + b"\x30\0\0\0", "word of an iteration to follow out of turn"),
        (b"\x40\0\0\0", "word of the end out of turn"),
    ],
    ids=range(7),
)
def test_what_no_worker_says_is_refused_by_name(
    forest: Callable[[str, int], Forest], said: bytes, problem: str
) -> None:
    """To the second of two servers, which is to hear from the worker whether it goes on."""
    ours, theirs = socketpair()
    made = forest("async_ps(servers=2)", 3)
    with theirs, Server("h2", made, {0: ours}, (np.zeros(4, np.float32), lambda _: None), 4) as server:
        theirs.sendall(said)
        with pytest.raises(WorkerError, match=f"h2 got {problem} from h0, and does not expect it"):
            apply_all(server)
