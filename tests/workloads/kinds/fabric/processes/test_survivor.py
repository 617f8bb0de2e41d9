"""What a server tells workers when one is lost that passes weights on to them, and what it then does itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric import fates
from testbed.workloads.kinds.fabric.processes import server as processes
from testbed.workloads.kinds.fabric.processes.messages import Give, Gone, Gradient, Note, Order, Weights
from testbed.workloads.kinds.fabric.processes.server import Served, Survival
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.serving.exchange import Floats

PLAN = mlfabric_a(build("star(hosts=6)", rate_bps=10**9), [1], aggregators=2, window=0)
FIRST, SECOND, *_ = PLAN.workers


class Server(processes.Server):
    """Writes down the weights that it gives."""

    def __init__(self, sockets: dict[int, socket.socket]) -> None:
        served = Served((np.zeros(1, np.float32),), lambda *_: None)
        super().__init__(PLAN, PLAN.server, sockets, served, Survival(60.0, 40))
        self.given: list[tuple[int, Weights]] = []

    def _say(self, node: int, note: Note, floats: Floats | None = None) -> None:
        if isinstance(note, Weights):
            self.given.append((node, note))
        super()._say(node, note, floats)

    def decide(self, numbers: list[int]) -> None:
        """These updates are dropped: that is decided without any bytes."""
        for number in numbers:
            self._decided(self.journal.drop(number, 0))

    def give(self, first: int, *onward: int) -> Weights:
        """Weights to nodes, over the first of them."""
        recipients = tuple((node, 0.0, True) for node in (first, *onward))
        self._came(self._by_node[PLAN.scheduler], Give((((first, 0.0, 0.0), onward),), recipients), None)
        self._move()
        return self.given[-1][1]

    def lose(self, node: int) -> None:
        self._watch([*self._by_node], 60.0)
        self._lose(node)
        self._move()


def learnt(note: Weights, known: int, mine: int) -> fates.Learnt:
    return fates.learn(note.begin, note.begin_version, note.entries, known, mine, len(PLAN.workers))


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = {node: socket.create_connection(listener.getsockname()) for node in PLAN.met_by(PLAN.server)}
        theirs = [listener.accept()[0] for _ in ours]
    made = Server(ours)
    yield made
    made.close()
    for sock in theirs:
        sock.close()


def test_who_had_the_weights_of_a_lost_distributor_understands_the_next_ones(server: Server) -> None:
    server.decide([0, 1])
    known = learnt(server.give(FIRST, SECOND), 0, 1).known
    server.decide([2, 3])
    server.lose(FIRST)
    again, note = server.given[-1]
    assert again == SECOND
    assert learnt(note, 0, 1).known == 4, "who did not have them understands these"
    server.decide([len(PLAN.workers) + 1])
    mine = len(PLAN.workers) + 1
    assert learnt(server.give(SECOND), known, mine).known == 5
    assert learnt(server.given[-1][1], 4, mine).known == 5


@pytest.mark.parametrize("is_noticed_here_first", [True, False])
def test_what_is_held_behind_an_update_that_is_given_up_is_applied_at_once(
    server: Server, is_noticed_here_first: bool
) -> None:
    """Nothing else may come: all other workers may wait for weights."""
    scheduler = server._by_node[PLAN.scheduler]
    server._watch([*server._by_node], 60.0)
    server._came(scheduler, Order((0, 1), (0, 0), (0.0, 0.0)), None)
    update = Gradient((1,), (0,), ((1.0, 1.0),), -1, 1, norms=(0.0,))
    server._came(server._by_node[SECOND], update, np.zeros(1, np.float32))
    if is_noticed_here_first:
        server.lose(FIRST)
    assert server.journal.version == 0, "the first one may still come"
    server._came(scheduler, Gone(FIRST, (0,)), None)
    server._move()
    assert [number for number, _ in server.journal.entries] == [1]
