"""Forests to test with, and engines run over loopback TCP, a thread a node."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.job import Peer
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.transport import connect_all
from tests.processes import met

PORT = 29400
_NETWORKS = itertools.count()


@pytest.fixture
def topology() -> Callable[..., Topology]:
    """Builds a topology at 1 Gbit/s from its expression."""
    return lambda expression, rate_bps=10**9: build_topology(expression, rate_bps=rate_bps)


@pytest.fixture
def loopback_peers() -> Callable[[Forest, int], tuple[Peer, ...]]:
    """Peers of a node on addresses 127.x.y.(node + 1) that no other test of this or another process uses."""
    number = next(_NETWORKS)
    prefix = f"127.{1 + os.getpid() % 250}.{(os.getpid() // 250 + number) % 256}"

    def peers(forest: Forest, node: int) -> tuple[Peer, ...]:
        return tuple(
            Peer(peer, f"{prefix}.{node + 1}", f"{prefix}.{peer + 1}", PORT + number % 1000)
            for peer in met(forest, node)
        )

    return peers


@pytest.fixture
def on_every_node(loopback_peers: Callable[..., tuple[Peer, ...]]) -> Iterator[Callable[..., dict[int, object]]]:
    """Runs ``work(node, sockets)`` in a thread for each node; returns what each returned or raised, by node.

    With several ``circuits``, there are as many sockets of each neighbour.
    """

    def run(
        forest: Forest, nodes: list[int], work: Callable[..., object], limit_s: float = 60.0, circuits: int = 1
    ) -> dict[int, object]:
        results: dict[int, object] = {}

        def member(node: int) -> None:
            sockets = {}
            peers = [
                replace(peer, port=peer.port + 1000 * circuit)
                for peer in loopback_peers(forest, node)
                for circuit in range(circuits)
            ]
            try:
                sockets = connect_all(node, peers, forest.nodes, "reno", 20.0)
                one_each = {peer: one for peer, (one, *_) in sockets.items()}
                results[node] = work(node, sockets if circuits > 1 else one_each)
            except Exception as error:
                results[node] = error
            finally:
                for several in sockets.values():
                    for sock in several:
                        sock.close()

        threads = [threading.Thread(target=member, args=(node,), daemon=True) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(limit_s)
        hanging = [node for node, thread in zip(nodes, threads, strict=True) if thread.is_alive()]
        assert not hanging, f"nodes {hanging} hang"
        return results

    return run


@pytest.fixture
def random_forest() -> Callable[[int, int, int, int], Forest]:
    """A forest over the hosts of star(hosts) whose trees are random, with hosts that add without being workers."""

    def make(seed: int, hosts: int, workers: int, classes: int) -> Forest:
        draw = random.Random(seed)
        trees = np.full((2, classes, hosts + 1), -2, np.int32)
        chosen = sorted(draw.sample(range(hosts), workers))
        for c in range(classes):
            root = draw.randrange(hosts)
            for way in range(2):
                helpers = draw.sample(range(hosts), draw.randint(0, hosts))
                members = [node for node in {*chosen, *helpers} if node != root]
                draw.shuffle(members)
                trees[way, c, root] = -1
                for i, node in enumerate(members):
                    trees[way, c, node] = draw.choice([root, *members[:i]])
        return Forest(
            scheme=f"random {seed}",
            nodes=(*(f"h{i}" for i in range(hosts)), "s0"),
            workers=tuple(chosen),
            share=np.array([draw.randint(1, 5) for _ in range(classes)], np.int64),
            reduce=trees[0],
            broadcast=trees[1],
        )

    return make
