"""A server that feeds its replica when another process is lost: both end with the same bits, within the bound."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import NeighbourError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import lines
from testbed.workloads.kinds.fabric.journal import Rates
from testbed.workloads.kinds.fabric.losses_account import Feeding
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.messages import Gradient, Held, Order
from testbed.workloads.kinds.fabric.processes.replica import Replica
from testbed.workloads.kinds.fabric.processes.server import Served, Server, Survival
from testbed.workloads.kinds.fabric.replication_account import counted, other
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.kinds.fabric.sums import Sums, history, shares
from testbed.workloads.serving.exchange import Floats

from .tcp import connected

STAR = build("star(hosts=8)", rate_bps=10**9)
PLAN = mlfabric_a(STAR, [1], aggregators=2, window=0, divergence_updates=2)
MOST = 2.0
NEAR = mlfabric_a(STAR, [1], aggregators=2, window=0, divergence_bound=MOST)
"""The same with a distance, which some updates are beyond by themselves, and some pairs of others together."""
SERVER, REPLICA, SCHEDULER = PLAN.server, PLAN.replica or 0, PLAN.scheduler
WORLD, MOMENTUM, FLOATS = len(PLAN.workers), 0.5, 3
UPDATES = np.random.default_rng(1).normal(size=(60, FLOATS)).astype(np.float32)
NORMS = [float(one) for one in np.linalg.norm(UPDATES.astype(np.float64), axis=1)]


class Model:
    """SGD with momentum."""

    def __init__(self) -> None:
        self.arrays = np.zeros(FLOATS, np.float32), np.zeros(FLOATS, np.float32)

    def apply(self, floats: Floats, is_sum: bool, count: int) -> None:
        weights, velocity = self.arrays
        sums = np.split(floats, 2) if is_sum else (floats, floats)
        to_weights, to_velocity = history(MOMENTUM, count)
        weights -= np.float32(to_weights) * velocity + sums[0]
        velocity *= np.float32(to_velocity)
        velocity += sums[1]


class Both:
    """A server and its replica, which are connected; others say what the test says for them."""

    def __init__(self, stack: ExitStack, rates: Rates, plan: Fabric) -> None:
        self.models, self.plan = (Model(), Model()), plan
        between = connected()
        ends = [self._sockets(stack, node, other, between[at]) for at, (node, other) in enumerate(self._pairs)]
        served = [Served(model.arrays, model.apply, rates, MOMENTUM) for model in self.models]
        survival = Survival(60.0, 10 * WORLD)
        self.server = Server(plan, SERVER, ends[0], served[0], survival)
        self.replica = Replica(plan, REPLICA, ends[1], served[1], survival)
        for one in (self.server, self.replica):
            stack.enter_context(closing(one))
            one._watch({*one._by_node}, 60.0)
        self.written: list[int] = []
        self.server.tells(lambda **said: self.written.append(len(said["step"][1])))

    _pairs = ((SERVER, REPLICA), (REPLICA, SERVER))

    @staticmethod
    def _sockets(stack: ExitStack, node: int, other: int, end: socket.socket) -> dict[int, socket.socket]:
        end.setblocking(False)
        found = {other: end}
        for peer in PLAN.met_by(node):
            if peer != other:
                ours, theirs = connected()
                ours.setblocking(False)
                stack.enter_context(theirs)
                found[peer] = ours
        return found

    def expect(self, numbers: Sequence[int], versions: Sequence[int]) -> None:
        told = Order(tuple(numbers), tuple(versions), tuple(NORMS[one] for one in numbers))
        self.server._came(self.server._by_node[SCHEDULER], told, None)

    def send(self, to: Server | Replica, numbers: Sequence[int], versions: Sequence[int]) -> None:
        """One update straight, or a sum by the daemon of the first worker."""
        of, ones = tuple(numbers), tuple(shares([1.0] * len(numbers), MOMENTUM))
        node, norms = PLAN.workers[numbers[0] % WORLD], tuple(NORMS[one] for one in of)
        if len(of) == 1:
            note, floats = Gradient(of, tuple(versions), ((1.0, 1.0),), -1, 1, norms=norms), UPDATES[of[0]].copy()
        else:
            sums = Sums(ones, FLOATS, MOMENTUM)
            for at, number in enumerate(of):
                sums.add(at, UPDATES[number].copy())
            note, floats = Gradient(of, tuple(versions), ones, 0, 2, norms=norms), sums.floats
        to._came(to._by_node[node], note, floats)

    def begin(self, nodes: Sequence[int], count: int) -> list[int]:
        """So many of these workers at most, by rank, compute an update: none has one of which it is not known what
        became of it."""
        here = self.server.journal._known - {number for number, _ in self.server.journal.entries}
        free = [PLAN.workers.index(node) for node in nodes]
        free = [rank for rank in free if rank not in {number % WORLD for number in here}][:count]
        for rank in free:
            assert self.server._turns
            self.server._turns.give(rank, rank in self.server._turns._waiting)
        return free

    def lose(self, node: int) -> None:
        for one in (self.server, self.replica):
            one._lose(node)

    def settle(self) -> None:
        """Until both have read all that follows from what was said: a barrier there and back changes nothing."""
        before = None
        while (now := self._state()) != before:
            before = now
            for one, node, to in ((self.server, SERVER, self.replica), (self.replica, REPLICA, self.server)):
                one._say_barrier(REPLICA if node == SERVER else SERVER)
                met = to.met[node] + 1
                while to.met[node] < met:
                    one._step(0.0)
                    to._step(0.01)

    def _state(self) -> tuple[int, ...]:
        journals = self.server.journal, self.replica.journal
        return (*(len(one.steps) for one in journals), journals[0].replicated, journals[1].here)

    def check(self) -> None:
        """Server and replica are the same, and their journals fit together."""
        for mine, theirs in zip(*(model.arrays for model in self.models), strict=True):
            assert np.array_equal(mine, theirs)
        told = self.replica.said()
        journal, copied = lines(self.server.said()["journal"], WORLD), lines(told["copied"], WORLD)
        whole, wrong = Feeding.told([told]).whole(journal, copied, MOMENTUM)
        assert wrong == ""
        assert other(counted(journal, MOMENTUM), counted(whole, MOMENTUM)) == ""
        self._check_bound()

    def _check_bound(self) -> None:
        """At each commit, the server's weights are no further from those that the replica has, or can make of what it
        has, than the bound allows. With rates of 1."""
        order = [number for step in self.server.journal.steps for number in step.unit.members]
        model, weights = Model(), [np.zeros(FLOATS, np.float32)]
        for number in order:
            model.apply(UPDATES[number], is_sum=False, count=1)
            weights.append(model.arrays[0].copy())
        leads, had = self.server.journal.leads, 0
        assert leads == sorted(leads)
        for step, lead in zip(self.server.journal.steps, leads, strict=True):
            had += len(step.unit.members)
            if self.plan is PLAN:
                assert had - lead <= 2
            elif had - lead > 1:  # a single update that is beyond it goes through
                assert np.linalg.norm(weights[had] - weights[lead]) <= MOST * (1 + 1e-6)


@contextmanager
def both(rates: Rates = lambda *_: 1.0, plan: Fabric = PLAN) -> Iterator[Both]:
    with ExitStack() as stack:
        yield Both(stack, rates, plan)


def test_what_a_sum_has_and_the_replica_lacks_is_in_the_snapshot() -> None:
    with both() as two:
        two.expect([0, 1, 2, 3], [0, 0, 0, 0])
        two.settle()
        two.send(two.replica, [0], [0])
        two.send(two.replica, [2], [0])
        two.settle()
        two.send(two.server, [0], [0])
        two.send(two.server, [1, 2], [0, 0])
        two.settle()
        assert two.server.journal.version == 3
        assert two.replica.journal.version == 1
        two.lose(PLAN.workers[1])
        two.settle()
        two.check()
        two.send(two.replica, [3], [0])
        assert two.replica.journal.version == 3, "what daemons send counts no more"
        two.send(two.server, [3], [0])
        two.begin([PLAN.workers[0]], 1)
        two.expect([5], [3])
        two.send(two.server, [5], [3])
        two.settle()
        assert two.server.journal.version == two.replica.journal.version == 5
        two.check()
        told = two.replica.said()
        assert told["snapshots"] == [(1, 2)]
        assert told["snapshot_bytes"] == 8 * FLOATS
        assert sorted(source for source, *_ in told["came"]) == [0, 2, 3, SERVER, SERVER]
        assert two.written == [1, 2, 1, 1]


def test_the_replica_is_fed_before_the_server_goes_on_and_what_it_had_ahead_does_not_count() -> None:
    with both() as two:
        two.expect([0, 1, 2, 3], [0, 0, 0, 0])
        two.settle()
        for number in (0, 1, 2, 3):
            two.send(two.replica, [number], [0])
        two.settle()
        assert two.server.journal.replicated == 4
        two.lose(PLAN.workers[4])
        assert two.server.journal.replicated == 0
        two.server._told(two.server._by_node[REPLICA], Held(4))
        assert two.server.journal.replicated == 0, "that was said before the snapshot"
        for number in (0, 1, 2, 3):
            two.send(two.server, [number], [0])
        assert two.server.journal.version == 2, "the bound"
        two.settle()
        assert two.server.journal.version == 4
        two.check()


def test_without_a_scheduler_updates_come_as_they_come_and_each_is_fed_once() -> None:
    with both(lambda version, computed_on: 1 / (1 + version - computed_on)) as two:
        two.expect([0, 1], [0, 0])
        two.send(two.server, [1], [0])
        two.lose(SCHEDULER)
        two.send(two.server, [2], [0])
        two.send(two.server, [2], [0])
        two.send(two.server, [0], [0])
        two.settle()
        assert [number for number, _ in two.server.journal.entries] == [1, 2, 0]
        two.check()
        assert two.replica.said()["snapshots"] == [(0, 0)]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_both_end_with_the_same_bits_and_within_the_bound_whoever_is_lost_when(data: st.DataObject) -> None:
    """Updates come straight or in sums of two or three, to either, in any pieces, and processes are lost meanwhile."""
    losses = data.draw(st.lists(st.sampled_from([*PLAN.workers[:3], SCHEDULER]), max_size=3, unique=True))
    when = {node: data.draw(st.integers(0, 5)) for node in losses}
    with both(plan=data.draw(st.sampled_from([PLAN, NEAR]))) as two:
        number, living = 0, [*PLAN.workers]
        for turn in range(6):
            for node in (node for node in losses if when[node] == turn):
                two.lose(node)
                living = [one for one in living if one != node]
            count = data.draw(st.integers(1, 3))
            ranks = two.begin(living, count)
            members = [turn * WORLD + rank for rank in ranks]
            versions = [two.server.journal.version] * len(members)
            if SCHEDULER not in two.server._former:
                two.expect(members, versions)
            if not members:
                continue
            for number in members if data.draw(st.booleans()) and not two.server._snapshots else ():
                two.send(two.replica, [number], versions[:1])
            if data.draw(st.booleans()):
                two.send(two.server, members, versions)
            else:
                for one in members:
                    two.send(two.server, [one], versions[:1])
            if data.draw(st.booleans()) or SCHEDULER in two.server._former:  # a worker waits for what becomes of it
                two.settle()
        if not two.server._snapshots:
            two.lose(PLAN.workers[3])
        two.settle()
        assert two.server.journal.at == sum(len(step.unit.members) for step in two.server.journal.steps)
        two.check()


@pytest.mark.parametrize("first", [PLAN.workers[0], SCHEDULER])
def test_a_replica_that_is_fed_does_not_serve(first: int) -> None:
    with both() as two:
        two.lose(first)
        two.settle()
        with pytest.raises(NeighbourError, match="may not both be"):
            two.replica._lose(SERVER)
