"""An asynchronous trial in simulated time: what clients, servers and replicas decide (:mod:`.parameter_server`),
message by message."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from testbed.workloads.kinds.asynchronous.exchange import NUMBERS
from testbed.workloads.kinds.asynchronous.ledger import Ledger
from testbed.workloads.kinds.asynchronous.parameter_server import REPLY
from testbed.workloads.kinds.asynchronous.plan import replicas, servers, staleness
from testbed.workloads.kinds.parts import Iterations, PlayedWorker
from testbed.workloads.learning.parts import spans
from testbed.workloads.play.wires import Wires, nothing
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.connection import HEADER_BYTES
from testbed.workloads.sync.forest import Forest

WRITTEN_BYTES_PER_S = 3.4e9
"""Bytes that a process hands to the kernel in a second. In the lab ``netns`` a server had come to the last of five
workers within 6 ms, with 4.4 MB for each."""


@dataclass
class _Part:
    """A worker's dealings with one server, as :class:`.parameter_server._Part`."""

    update: int = 0
    known: int = 0
    version: int = 0
    held_s: float = 0.0
    complete_s: float = -1.0


class _Server:
    """A server: its ledger, gradients that are there, by rank, and whether their workers go on, once that is known."""

    def __init__(self, number: int, node: int, replica: int | None, ledger: Ledger) -> None:
        self.number, self.node, self.replica, self.ledger = number, node, replica, ledger
        self.there: dict[int, int] = {}
        self.goes_on: dict[int, bool] = {}
        self.sent_on: deque[tuple[int, int, bool]] = deque()
        self.updates_of: dict[int, tuple[int, float]] = {}
        self.kept: list[tuple[int, int]] = []


class _Worker(PlayedWorker):
    def __init__(self, rank: int, node: int, parts: int) -> None:
        super().__init__(rank, node)
        self.parts = [_Part() for _ in range(parts)]
        self.goes_on = True


class Played:
    """A job's updates, which begin at this moment of the wires."""

    def __init__(self, plan: Forest, asked: Iterations, wires: Wires) -> None:
        self._names, self._asked, self._wires = plan.nodes, asked, wires
        world, served = len(plan.workers), servers(plan)
        updates = world * asked.count
        self._bytes = [FLOAT_BYTES * (stop - start) for start, stop in spans(asked.floats, len(served))]
        self._servers = [
            _Server(number, node, replicas(plan).get(node), Ledger(world, updates, staleness(plan), number))
            for number, node in enumerate(served)
        ]
        self._workers = [_Worker(rank, node, len(served)) for rank, node in enumerate(plan.workers)]
        for worker in self._workers:
            self._begin(worker)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Return by process the lines of iterations, and what the last line says besides what all say, once the wires
        have run.

        Raises:
            TrialError: workers wait for what never comes.
        """
        self._wires.require_none_waits([self._names[worker.node] for worker in self._workers if worker.goes_on])
        said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for worker in self._workers:
            said[self._names[worker.node]] = [*worker.lines, {}]
        for server in self._servers:
            order = [(update.rank, update.iteration, update.version) for update in server.ledger.order]
            said[self._names[server.node]] = [
                {"updates": order} | ({} if server.replica is None else {"part_sha256": None})
            ]
            if server.replica is not None:
                said[self._names[server.replica]] = [{"replicated": server.kept, "part_sha256": None}]
        return said

    def _tell(self, src: int, dst: int, payload_bytes: int, came: Callable[[], None]) -> None:
        self._wires.send(src, dst, HEADER_BYTES + payload_bytes, nothing, came)

    # Workers

    def _begin(self, worker: _Worker) -> None:
        self._asked.begin(worker, self._wires, partial(self._push, worker))

    def _push(self, worker: _Worker) -> None:
        for server, part in zip(self._servers, worker.parts, strict=True):
            part.complete_s = -1.0
            announced = partial(self._announced, server, worker) if server.number == 0 else nothing
            self._tell(worker.node, server.node, NUMBERS.size, announced)
            gradient = partial(self._arrived, server, worker, part.version)
            self._tell(worker.node, server.node, self._bytes[server.number], gradient)

    def _told(self, worker: _Worker, goes_on: bool) -> None:
        """Take the first server's word on an iteration to follow, and tell the others."""
        worker.goes_on = goes_on
        for server in self._servers[1:]:
            self._tell(worker.node, server.node, 0, partial(self._knows, server, worker.rank, goes_on))

    def _given(self, worker: _Worker, number: int, update: int, version: int, held_s: float) -> None:
        """Take a server's newest weights."""
        part = worker.parts[number]
        part.update, part.known, part.version = update, part.version, version
        part.held_s, part.complete_s = held_s, self._wires.now_s
        if min(part.complete_s for part in worker.parts) < 0:
            return
        first, *others = worker.parts
        now_s = self._wires.now_s
        line = {
            **self._asked.line(worker, now_s),
            **{"update": first.update, "version": first.known},
            **{f"update_{at}": each.update for at, each in enumerate(others, start=1)},
            **{f"version_{at}": each.known for at, each in enumerate(others, start=1)},
            "staleness": max(each.update - each.known for each in worker.parts),
            "held_s": now_s - max(each.complete_s - each.held_s for each in worker.parts),
        }
        worker.lines.append(line)
        if worker.goes_on:
            self._begin(worker)

    # Servers

    def _announced(self, server: _Server, worker: _Worker) -> None:
        """Say whether another iteration follows the gradient that is to come."""
        goes_on = server.ledger.take()
        self._tell(server.node, worker.node, 0, partial(self._told, worker, goes_on))
        self._knows(server, worker.rank, goes_on)

    def _arrived(self, server: _Server, worker: _Worker, version: int) -> None:
        server.there[worker.rank] = version
        self._look(server, worker.rank)

    def _knows(self, server: _Server, rank: int, goes_on: bool) -> None:
        server.goes_on[rank] = goes_on
        self._look(server, rank)

    def _look(self, server: _Server, rank: int) -> None:
        """Apply a gradient that is there, if it is known whether its worker goes on: at once, or when the replica has
        it."""
        if rank not in server.there or rank not in server.goes_on:
            return
        version, goes_on = server.there.pop(rank), server.goes_on.pop(rank)
        if server.replica is None:
            self._update(server, rank, version, goes_on)
            return
        server.sent_on.append((rank, version, goes_on))
        self._tell(server.node, server.replica, NUMBERS.size, nothing)
        self._tell(server.node, server.replica, self._bytes[server.number], partial(self._replicated, server, rank))

    def _replicated(self, server: _Server, rank: int) -> None:
        assert server.replica is not None
        server.kept.append((rank, len(self._workers[rank].lines)))  # its worker waits for the answer meanwhile
        self._tell(server.replica, server.node, 0, lambda: self._update(server, *server.sent_on.popleft()))

    def _update(self, server: _Server, rank: int, version: int, goes_on: bool) -> None:
        """Apply a gradient, and send weights to each worker that may go on now. The server's loop is at the connection
        that the gradient came over. There it writes first, and then to the next ones, each as soon as the kernel has
        what goes to the one before."""
        ledger, now_s, world = server.ledger, self._wires.now_s, len(self._workers)
        ledger.apply(rank, version, goes_on)
        server.updates_of[rank] = ledger.version - 1, now_s
        known = list(ledger.given)
        for turn, released in enumerate(sorted(ledger.release(), key=lambda other: (other - rank) % world)):
            update, applied_s = server.updates_of[released]
            worker = self._workers[released]
            news_bytes = REPLY.size + NUMBERS.size * (ledger.version - known[released])
            given = partial(self._given, worker, server.number, update, ledger.version, now_s - applied_s)
            write = partial(self._write, server, worker.node, news_bytes, given)
            self._wires.at(now_s + turn * self._bytes[server.number] / WRITTEN_BYTES_PER_S, write)
        if server.number == 0:
            self._asked.done(ledger.version // world)

    def _write(self, server: _Server, node: int, news_bytes: int, given: Callable[[], None]) -> None:
        self._tell(server.node, node, news_bytes, nothing)
        self._tell(server.node, node, self._bytes[server.number], given)
