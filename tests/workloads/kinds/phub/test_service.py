"""Workers, cores and a manager, a thread each: what comes back, what a push and a pull are, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from socket import socket, socketpair
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, TrialTimeoutError, WorkerError
from testbed.workloads.kinds.phub import api
from testbed.workloads.kinds.phub.api import NONCE_BYTES, Handle
from testbed.workloads.kinds.phub.client import Client
from testbed.workloads.kinds.phub.core import Core, Ends, Manager
from testbed.workloads.kinds.phub.exchange import PUSH_PULL, VALUE, End
from testbed.workloads.kinds.phub.memory import Memory
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.sync.connection import HEADER_BYTES

FLOATS, WORLD = (3000, 1000), 3


def plan(nics: int = 2, aggregation: str = "tall", key_bytes: int = 1024) -> Plan:
    nodes = tuple(f"h{node}" for node in range(WORLD + 1))
    workers = tuple(range(WORLD))
    return Plan("", nodes, workers, (WORLD,), nics, FLOATS, key_bytes, aggregation=aggregation)  # type: ignore[arg-type]


def gradient_of(rank: int, iteration: int) -> np.ndarray:
    return np.random.default_rng([rank, iteration]).integers(-8, 8, sum(FLOATS)).astype(np.float32)


class Box:
    """A box in threads of this process, and its workers' clients."""

    def __init__(self, made: Plan, iterations: int, pair: Callable[[], tuple[socket, socket]] = socketpair) -> None:
        ends: dict[str, dict[str, End]] = {one.name: {} for one in made.processes()}
        for one, other in made.meetings():
            a, b = pair()
            ends[one][other], ends[other][one] = End(other, WORLD, a), End(one, 0, b)
        self.plan, self._ends, names = made, ends, [made.nodes[node] for node in made.workers]
        self.weights = [np.zeros(sum(made.tensors), np.float32) for _ in names]
        self.gradients = [gradient_of(rank, 0)[: sum(made.tensors)] for rank in range(WORLD)]
        mates = [[ends[name][core] for core in made.cores_at] for name in names]
        self.clients = [
            api.init_service(name, mates[rank], made, self.gradients[rank], self.weights[rank])
            for rank, name in enumerate(names)
        ]
        self.cores = [self._core(name, names, iterations) for name in made.cores_at]
        self.manager = Manager(made.manager, [ends[made.manager][core] for core in made.cores_at], made, iterations)

    def _core(self, name: str, names: list[str], iterations: int) -> Core:
        place = self.plan.cores_at[name]
        mine = [number for number, at in enumerate(self.plan.places) if at == place]
        floats = {number: self.plan.keys[number].floats for number in mine}
        memory, ends = Memory(floats, self.plan.parts(name)), self._ends[name]
        values = {number: memory.room(count) for number, count in floats.items()}
        held = {number: (each, partial(np.add, each, out=each)) for number, each in values.items()}
        met = Ends(name, [ends[one] for one in names], ends[self.plan.manager])
        return Core(met, self.plan, held, memory, iterations, None)


@contextmanager
def serving(
    made: Plan, iterations: int = 1, pair: Callable[[], tuple[socket, socket]] = socketpair
) -> Iterator[tuple[Box, list[Future[Any]]]]:
    """Serve in threads; workers are the caller's."""
    box = Box(made, iterations, pair)

    def serve(process: Core | Manager) -> None:
        with process:
            process.barrier(5)
            list(process.serve(1, 0, iterations, 5))

    with ThreadPoolExecutor(len(box.cores) + 1) as threads:
        served = [threads.submit(serve, process) for process in (*box.cores, box.manager)]
        try:
            yield box, served
        finally:
            for client in box.clients:
                client.close()


def all_do(box: Box, act: Callable[[int, Client], None]) -> None:
    """Have all workers act, a thread each, after a barrier."""

    def work(rank: int) -> None:
        box.clients[rank].barrier(5)
        act(rank, box.clients[rank])

    with ThreadPoolExecutor(WORLD) as threads:
        list(threads.map(work, range(WORLD)))


def test_a_core_without_keys_of_the_last_layers_may_end_before_others() -> None:
    made = replace(plan(aggregation="wide", key_bytes=4000), tensors=(300, 200, 99))
    assert len({place.nic for place in made.places}) == 2
    with serving(made, iterations=2) as (box, served):

        def train(_: int, client: Client) -> None:
            for _iteration in range(2):
                for key in range(3):
                    api.push_pull(client, [key], timeout_s=5)
                time.sleep(0.05)

        all_do(box, train)
        for one in served:
            one.result(5)


@pytest.mark.parametrize("aggregation", ["tall", "wide"])
def test_all_workers_get_the_values_that_all_sums_have_changed(aggregation: str) -> None:
    made, iterations = plan(aggregation=aggregation), 4

    def train(rank: int, client: Client) -> None:
        for iteration in range(iterations):
            box.gradients[rank][:] = gradient_of(rank, iteration)
            api.push_pull(client, range(len(made.keys)), timeout_s=5)

    with serving(made, iterations) as (box, served):
        all_do(box, train)
        for one in served:
            one.result(5)
    right = sum(gradient_of(rank, iteration) for rank in range(WORLD) for iteration in range(iterations))
    for weights in box.weights:
        assert np.array_equal(weights, right)


def test_workers_begin_with_different_cores_and_send_each_a_key_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(plan(key_bytes=256), 1)
    for rank, client in enumerate(box.clients):
        told: list[str] = []
        monkeypatch.setattr(client, "_say", lambda at, *_, of=client, told=told: told.append(of._by_node[at].name))
        client.ask(PUSH_PULL, range(len(box.plan.keys)))
        turns = ["h3.core0", "h3.core1"] if rank % 2 == 0 else ["h3.core1", "h3.core0"]
        assert told == turns * 16, "as many as may be on the way"
    assert len(box.plan.keys) > 32


def test_a_key_costs_a_header_of_four_bytes_each_way() -> None:
    made = plan()
    barriers = HEADER_BYTES * len(made.cores_at)
    with serving(made) as (box, _):
        all_do(box, lambda _, client: api.push_pull(client, range(len(made.keys)), timeout_s=5))
        for client in box.clients:
            assert client.wire_bytes == 4 * sum(FLOATS) + HEADER_BYTES * len(made.keys) + barriers


def test_a_push_waits_for_its_core_and_a_pull_for_all_pushes() -> None:
    made = plan()
    all_pushed = threading.Barrier(WORLD)

    def push_then_pull(rank: int, client: Client) -> None:
        api.push(client, range(len(made.keys)), timeout_s=5)
        assert not box.weights[rank].any(), "a push brings nothing back"
        all_pushed.wait()
        api.pull(client, range(len(made.keys)), block=False)
        api.wait(client, timeout_s=5)

    with serving(made) as (box, _):
        all_do(box, push_then_pull)
    right = sum(gradient_of(rank, 0) for rank in range(WORLD))
    assert all(np.array_equal(weights, right) for weights in box.weights)


def test_a_pull_before_others_have_pushed_waits_for_them() -> None:
    made = plan()
    late = threading.Event()

    def act(rank: int, client: Client) -> None:
        if rank:
            late.wait(5)
        api.push(client, range(len(made.keys)), timeout_s=5)
        if rank == 0:
            api.pull(client, [0], block=False)
            with pytest.raises(TrialTimeoutError, match="it waits for the value of key 0"):
                api.wait(client, timeout_s=0.1)
            late.set()
        api.pull(client, range(1 if rank == 0 else 0, len(made.keys)), timeout_s=5)

    with serving(made) as (box, _):
        all_do(box, act)
    assert np.array_equal(box.weights[0], sum(gradient_of(rank, 0) for rank in range(WORLD)))


def test_a_key_that_is_pushed_twice_is_refused() -> None:
    made = plan()
    with serving(made) as (box, served):

        def act(rank: int, client: Client) -> None:
            if rank == 1:
                for _ in range(2):
                    client._say(client._owner[3], PUSH_PULL, 3, box.gradients[rank][slice(*made.keys[3].span)])
                client._move()

        all_do(box, act)
        with pytest.raises(WorkerError, match="h1 pushed key 3 twice in iteration 0"):
            served[made.places[3].nic].result(5)


@pytest.mark.parametrize(("kind", "key", "said"), [
    (PUSH_PULL, 10**6, "h1 sent key 1000000, which h3.core0 does not have"),
    (VALUE, 0, "h3.core0 got the value of key 0 from h1, and does not expect it"),
])  # fmt: skip
def test_what_a_core_does_not_own_or_expect_is_refused(kind: int, key: int, said: str) -> None:
    made = plan(nics=1)
    with serving(made) as (box, served):

        def act(rank: int, client: Client) -> None:
            if rank == 1:
                client._say(0, kind, key)
                client._move()

        all_do(box, act)
        with pytest.raises(WorkerError, match=said):
            served[0].result(5)


def test_a_worker_that_is_gone_is_named() -> None:
    made = plan(nics=1)
    with serving(made) as (box, served):
        all_do(box, lambda rank, client: client.close() if rank == 2 else None)
        with pytest.raises(NeighbourError, match="lost the connection to h2"):
            served[0].result(5)


def test_a_handle_is_read_as_it_was_shown_and_no_other_is_taken() -> None:
    handle, (a, b) = Handle.new(3), socketpair()
    handle.show(a)
    read = Handle.read(b, "h0", time.monotonic() + 1)
    handle.check(read, "h0")
    with pytest.raises(WorkerError, match="h0 came with a wrong nonce"):
        Handle.new(3).check(read, "h0")
    with pytest.raises(WorkerError, match="h0 came with a wrong namespace 3"):
        Handle(4, handle.nonce).check(read, "h0")
    assert len(handle.nonce) == NONCE_BYTES
    assert repr(handle.nonce) not in repr(handle), "no log shows a nonce"


def test_whoever_says_no_handle_is_not_waited_for_without_an_end() -> None:
    a, b = socketpair()
    with pytest.raises(TrialTimeoutError, match="h0 did not say which service it means"):
        Handle.read(b, "h0", time.monotonic() + 0.05)
    a.close()
    with pytest.raises(NeighbourError, match="lost the connection to h0"):
        Handle.read(b, "h0", time.monotonic() + 1)


class Late:
    """Both ways of a connection whose bytes come so much later."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def ends(self) -> tuple[socket, socket]:
        (a, inner_a), (b, inner_b) = socketpair(), socketpair()
        for source, target in ((inner_a, inner_b), (inner_b, inner_a)):
            passing: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            threading.Thread(target=self._read, args=(source, passing), daemon=True).start()
            threading.Thread(target=self._write, args=(target, passing), daemon=True).start()
        return a, b

    def _read(self, source: socket, passing: SimpleQueue[tuple[float, bytes]]) -> None:
        while got := _received(source):
            passing.put((time.monotonic() + self._delay_s, got))
        passing.put((0.0, b""))

    def _write(self, target: socket, passing: SimpleQueue[tuple[float, bytes]]) -> None:
        while (told := passing.get())[1]:
            time.sleep(max(0.0, told[0] - time.monotonic()))
            with suppress(OSError):
                target.sendall(told[1])
        target.close()


def _received(source: socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except OSError:
        return b""


def test_a_push_and_then_a_pull_take_a_round_trip_more_than_both_at_once() -> None:
    """5 ms a link, so 10 ms to the box, and 20 ms there and back."""
    made, fused_s, apart_s = plan(nics=1), [], []

    def act(_: int, client: Client) -> None:
        keys = range(len(made.keys))
        for _repeat in range(3):
            together.wait()
            begun_s = time.monotonic()
            api.push_pull(client, keys, timeout_s=5)
            fused_s.append(time.monotonic() - begun_s)
            together.wait()
            begun_s = time.monotonic()
            api.push(client, keys, timeout_s=5)
            api.pull(client, keys, timeout_s=5)
            apart_s.append(time.monotonic() - begun_s)

    together = threading.Barrier(WORLD)
    with serving(made, 6, Late(0.01).ends) as (box, _):
        all_do(box, act)
    assert 0.02 <= min(fused_s) < 0.04 <= min(apart_s)
