"""Aggregation in switches over real TCP: sums to the step, bounded memory, and overflow that is found."""

from __future__ import annotations

import itertools
import random
import re
import socket
import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.sync.chunks import ChunkTable, cut
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
OnEveryNode = Callable[..., dict[int, object]]
LIMIT_S = 30.0
TWO_RACKS = "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina={})"


def nodes(forest: Forest) -> list[int]:
    return sorted({node for pair in pairs(forest) for node in pair})


@lru_cache(64)
def gradient_of(node: int, iteration: int, floats: int) -> np.ndarray:
    return np.random.default_rng((node, iteration)).normal(0, 1, floats).astype(np.float32)


@lru_cache(8)
def sum_of(workers: tuple[int, ...], iteration: int, floats: int) -> np.ndarray:
    return np.sum([gradient_of(worker, iteration, floats) for worker in workers], axis=0, dtype=np.float64)


def trains(forest: Forest, table: ChunkTable, iterations: int, step: float, seed: int) -> Callable[..., object]:
    """Checks every sum to N/2 steps and float32's own rounding, with random pauses before buckets."""

    def work(node: int, sockets: object) -> object:
        pause = random.Random(seed * 1000 + node)
        is_worker = node in forest.workers
        gradient = np.empty(table.total_floats, np.float32)
        engine = Engine(node, forest, table, sockets, gradient if is_worker else None)  # type: ignore[arg-type]
        engine.barrier(LIMIT_S)
        for i in range(iterations):
            gradient[:] = gradient_of(node, i, table.total_floats)
            for bucket in range(table.buckets):
                if pause.random() < 0.3:
                    time.sleep(0.004)
                engine.start(bucket)
            engine.wait(LIMIT_S)
            if is_worker:
                expected = sum_of(tuple(forest.workers), i, table.total_floats)
                world = len(forest.workers)
                error = np.abs(gradient - expected)
                assert (error <= world * step / 2 + world * 5 * 2**-23).all(), f"iteration {i}: {error.max()}"
        engine.barrier(LIMIT_S)
        return engine.wire_bytes

    return work


@pytest.mark.parametrize(
    ("scheme", "network", "step"),
    [
        ("switchml", "star(hosts=3,ina=all)", 2.0**-24),
        ("switchml(slots=2)", "star(hosts=3,ina=all)", 2.0**-24),
        ("switchml", TWO_RACKS.format("all"), 2.0**-24),
        ("atp", TWO_RACKS.format("all"), 1e-6),
        ("atp(slots=1)", TWO_RACKS.format("1"), 1e-6),
        ("atp(servers=3,scale=1000)", TWO_RACKS.format("all"), 1e-3),
        ("atp", TWO_RACKS.format("0"), 1e-6),
        ("rina", TWO_RACKS.format("2"), 1e-6),
        ("rina(slots=4)", TWO_RACKS.format("1"), 1e-6),
        ("rina(slots=2)", TWO_RACKS.format("2"), 1e-6),
        ("rina", "fat_tree(k=4,ina=5)", 1e-6),
        ("rina", "star(hosts=2,ina=all)", 1e-6),
    ],
)
@pytest.mark.parametrize("buckets", [1, 3])
def test_sums_are_right_to_the_step(
    topology: Build, on_every_node: OnEveryNode, scheme: str, network: str, step: float, buckets: int
) -> None:
    net = topology(network)
    forest = build(scheme, net, [])
    verify(forest, net)
    floats = 30_011
    edges = [floats * i // buckets for i in range(buckets + 1)]
    table = cut(forest, floats, list(itertools.pairwise(edges))[::-1], 2048)
    results = on_every_node(forest, nodes(forest), trains(forest, table, 4, step, seed=buckets))
    assert all(isinstance(count, int) for count in results.values()), results


def test_a_switch_has_no_more_memory_than_its_slots(topology: Build) -> None:
    net = topology("star(hosts=2,ina=all)")
    forest = build("switchml(slots=3)", net, [])
    table = cut(forest, 100_000, [(0, 100_000)], 4000)
    sums = Engine(2, forest, table, {0: socket.socket(), 1: socket.socket()}, None)._sums
    memory = {part.base.ctypes.data: part.base.nbytes for part in sums.parts if part.base is not None}
    assert sum(memory.values()) <= 3 * 4000 + 4 * len(table)


@pytest.mark.parametrize(
    ("value", "who"), [(3000.0, "h[01]: the gradient's element 3000 times"), (1500.0, "s0: a sum in")]
)
def test_overflow_is_found_where_it_happens(
    topology: Build, on_every_node: OnEveryNode, value: float, who: str
) -> None:
    """2,147 is the most that 10^6 steps to 1.0 can hold in 32 bits, for a worker as for a sum."""
    net = topology("star(hosts=2,ina=all)")
    forest = build("rina", net, [])
    table = cut(forest, 1000, [(0, 1000)], 4000)

    def work(node: int, sockets: object) -> object:
        gradient = np.full(1000, value, np.float32)
        engine = Engine(node, forest, table, sockets, gradient if node < 2 else None)  # type: ignore[arg-type]
        try:
            engine.start(0)
            engine.wait(LIMIT_S)
        finally:
            engine.close()
        return "done"

    results = on_every_node(forest, [0, 1, 2], work)
    errors = [str(error) for error in results.values() if isinstance(error, WorkerError)]
    assert any("does not fit 32 bits" in error and "fix: give the scheme a smaller scale" in error for error in errors)
    assert any(re.match(who, error) for error in errors), errors
