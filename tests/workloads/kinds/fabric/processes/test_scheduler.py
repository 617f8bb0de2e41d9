"""How a scheduler ends a trial with a replica, whenever the server or the replica is lost; and how it finds a server
that is started again."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from testbed.base.errors import NeighbourError, WorkerError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.messages import (
    Arrived,
    Decided,
    End,
    Give,
    Gone,
    Joined,
    Nears,
    Note,
    Ready,
    Renewed,
    Resume,
    Send,
    Serve,
)
from testbed.workloads.kinds.fabric.processes.scheduler import Scheduler
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.link_rates import Follower, told
from testbed.workloads.serving.watched import Seek

PLAN = mlfabric_a(
    build("star(hosts=5)", rate_bps=10**9), [1], aggregators=0, replica_aggregators=0, window=0, divergence_updates=9
)
"""Two workers, a server and its replica."""
SERVER, REPLICA = PLAN.server, PLAN.replica or 0
LOOKS = 500
"""After so many looks, a millisecond apart, nothing that the scheduler plans here is still to begin: it hangs."""


Sockets = dict[int, socket.socket]


def connected(nodes: Iterable[int]) -> tuple[Sockets, Sockets]:
    """By node, both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = {node: socket.create_connection(listener.getsockname()) for node in nodes}
        return ours, {node: listener.accept()[0] for node in ours}


class Trial(Scheduler):
    """A scheduler, and what the others answer to what it tells them. Each worker makes one update.

    Attributes:
        told: to whom it has told what.
        late: what arrives at the replica comes when a test says so.
        on_end: what comes of the word that the server is to end.
    """

    def __init__(self, rates: Path) -> None:
        ours, self._others = connected(PLAN.met_by(PLAN.scheduler))
        follower = Follower(rates, 2 * len(PLAN.links))
        super().__init__(PLAN, ours, Work(4.0, len(PLAN.workers), 0.0, 1, 1.0), follower, 60.0)
        self.told: list[tuple[int, Note]] = []
        self.late: list[Callable[[], None]] = []
        self.holds_replica = False
        self.replica_is_there = True
        self.on_end: Callable[[], None] = self.server_ends
        self._due: list[Callable[[], None]] = []
        self._version = 0
        for number, node in enumerate(PLAN.workers):
            self.says(node, Ready(number, 0, 1.0))

    def close(self) -> None:
        super().close()
        for other in self._others.values():
            other.close()

    def says(self, node: int, note: Note) -> None:
        """A process tells the scheduler this, if it is still there by then."""
        self._due.append(lambda: self._came(self._by_node[node], note, None) if node in self._by_node else None)

    def ends(self, node: int) -> None:
        """A connection is at its end."""
        self._due.append(lambda: self._lose(node))

    def server_ends(self) -> None:
        self.says(SERVER, End())
        self.replica_ends()

    def replica_ends(self) -> None:
        self.says(REPLICA, End())
        self.replica_is_there = False

    def _say(self, node: int, note: Note, floats: object = None) -> None:  # noqa: ARG002 - nobody reads
        if node in self._former:
            return
        self.told.append((node, note))
        if isinstance(note, Send):
            self._sent(node, note)
        elif isinstance(note, Give):
            for recipient, _, goes_on in note.recipients:
                self.says(recipient, Arrived((), node))
                if not goes_on:
                    self.says(recipient, End())
        elif isinstance(note, Gone) and note.node == SERVER and (node != REPLICA or self.replica_is_there):
            self.says(node, Joined(-1, 0, ()))
        elif isinstance(note, End) and node == SERVER:
            self.on_end()
        elif isinstance(note, End) and node == REPLICA:
            self.replica_ends()

    def _sent(self, node: int, note: Send) -> None:
        if note.target == REPLICA and self.holds_replica:
            self.late.append(lambda: self.says(REPLICA, Arrived((note.update,), node)))
            return
        self.says(note.target, Arrived((note.update,), node))
        if note.target == self._plan.server:
            self._version += 1
            self.says(note.target, Decided(((note.update, int(Fate.DIRECT)),), self._version))

    def _step(self, timeout_s: float) -> bool:  # noqa: ARG002 - as its base has it
        for _ in range(LOOKS):
            due, self._due = self._due, []
            for action in due:
                action()
            if self._move() or due:
                return True
            time.sleep(0.001)
        raise AssertionError(f"it waits {self._awaited()}")

    def run(self) -> None:
        for _ in self.serve(1, 0, 1, 60.0):
            pass

    def heard(self, node: int) -> list[type[Note]]:
        return [type(note) for one, note in self.told if one == node]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with Trial(tmp_path / "rates") as made:
        yield made


def test_a_trial_ends(trial: Trial) -> None:
    trial.run()
    assert trial.heard(SERVER)[-1] is End
    assert End not in trial.heard(REPLICA), "the server tells it"
    assert all(trial.heard(node)[-1] is End for node in PLAN.workers)


def test_a_replica_that_serves_ends_once_it_has_all(trial: Trial) -> None:
    trial.holds_replica = True
    trial._until(lambda: trial._ended >= {*PLAN.workers} and len(trial.late) == len(PLAN.workers), 60.0)
    trial.ends(SERVER)
    trial._watch((SERVER, REPLICA), 60.0)
    trial._until(lambda: Serve in trial.heard(REPLICA), 60.0)
    assert not trial._has_all()
    for arrive in trial.late:
        assert not trial._has_all()
        arrive()
    trial.run()
    assert trial.heard(REPLICA)[-1] is End


def server_vanishes(trial: Trial) -> None:
    trial.ends(SERVER)


def server_tells_the_scheduler_alone(trial: Trial) -> None:
    trial.says(SERVER, End())
    trial.ends(SERVER)
    trial.says(REPLICA, Gone(SERVER, ()))


def server_tells_the_scheduler_alone_and_the_replica_is_first(trial: Trial) -> None:
    trial.says(SERVER, End())
    trial.says(REPLICA, Gone(SERVER, ()))


def server_tells_the_replica_alone(trial: Trial) -> None:
    trial.replica_ends()
    trial.ends(SERVER)


def server_tells_the_replica_alone_and_its_end_is_noticed_first(trial: Trial) -> None:
    trial.ends(SERVER)
    trial.replica_ends()


def replica_vanishes(trial: Trial) -> None:
    trial.ends(REPLICA)
    trial.says(SERVER, End())


def replica_vanishes_when_the_server_has_ended(trial: Trial) -> None:
    trial.says(SERVER, End())
    trial.ends(SERVER)
    trial.ends(REPLICA)


@pytest.mark.parametrize(
    "loss",
    [
        server_vanishes,
        server_tells_the_scheduler_alone,
        server_tells_the_scheduler_alone_and_the_replica_is_first,
        server_tells_the_replica_alone,
        server_tells_the_replica_alone_and_its_end_is_noticed_first,
        replica_vanishes,
        replica_vanishes_when_the_server_has_ended,
    ],
)
def test_a_loss_at_the_end_does_not_keep_the_others(trial: Trial, loss: Callable[[Trial], None]) -> None:
    trial.on_end = lambda: loss(trial)
    trial.run()
    assert all(trial.heard(node)[-1] is End for node in PLAN.workers)


@pytest.mark.parametrize(("first", "second"), [(SERVER, REPLICA), (REPLICA, SERVER)])
def test_of_two_that_have_lost_each_other_the_first_one_to_say_so_stays(trial: Trial, first: int, second: int) -> None:
    trial._watch((SERVER, REPLICA), 60.0)
    for teller, lost in ((first, second), (second, first)):
        trial._came(trial._by_node[teller], Gone(lost, ()), None)
    trial.run()
    assert trial._former.keys() == {second}
    assert Gone(second, ()) in [note for node, note in trial.told if node == first]


@pytest.mark.parametrize("note", [Arrived((), SERVER), Nears((), SERVER, 0.01)])
def test_what_a_server_sends_that_has_noticed_a_loss_first_is_taken(trial: Trial, note: Arrived | Nears) -> None:
    """It sends weights straight that were to go over the node that is lost."""
    first, second = PLAN.workers
    trial._watch((*PLAN.workers, SERVER, REPLICA), 60.0)
    trial._came(trial._by_node[first], note, None)
    trial._came(trial._by_node[SERVER], Gone(second, ()), None)
    trial.run()
    assert trial._former.keys() == {second}


def test_what_nobody_was_to_send_is_an_error_if_no_loss_explains_it(trial: Trial) -> None:
    trial._loses_after_s = 0.0
    trial._came(trial._by_node[PLAN.workers[0]], Arrived((), SERVER), None)
    with pytest.raises(WorkerError, match="h0, and does not expect it"):
        trial._move()


def test_who_is_lost_after_its_stand_in_is_named(trial: Trial) -> None:
    trial._watch((SERVER, REPLICA), 60.0)
    trial._lose(REPLICA)
    with pytest.raises(NeighbourError, match="h2 was lost, so neither server nor replica is left"):
        trial._lose(SERVER)


RETURNING = mlfabric_a(build("star(hosts=4)", rate_bps=10**9), [1], aggregators=0, window=0)
"""Two workers, and a server that is started again."""


class Finder(Scheduler):
    """A scheduler that finds the new server at once."""

    def __init__(self, rates: Path) -> None:
        self.rates = rates
        ours, self.others = connected(RETURNING.met_by(RETURNING.scheduler))
        follower = Follower(rates, 2 * len(RETURNING.links))
        seek = Seek(self.find, rates.with_name("fenced"))
        super().__init__(RETURNING, ours, Work(4.0, 40, 0.0, 1, 1.0), follower, 60.0, seek)
        self._watch(RETURNING.workers, 60.0, {RETURNING.server: seek})

    def close(self) -> None:
        super().close()
        for other in self.others.values():
            other.close()

    def find(self, meanwhile: Callable[[], None]) -> socket.socket:
        meanwhile()
        self.signs = {node: self.others[node].recv(64, socket.MSG_DONTWAIT) for node in RETURNING.workers}
        (ours,), (other,) = (one.values() for one in connected([RETURNING.server]))
        self.others[RETURNING.server].close()
        self.others[RETURNING.server] = other
        return ours


@pytest.fixture
def finder(tmp_path: Path) -> Iterator[Finder]:
    with Finder(tmp_path / "rates") as made:
        yield made


def test_what_the_monitor_saw_before_the_server_was_lost_counts_for_the_plans_after_it(finder: Finder) -> None:
    seen_s = time.monotonic() + 60.0
    finder.rates.write_text(json.dumps(told(seen_s, {0: 5.0})) + "\n")
    finder._look_at_rates()
    finder._lose(RETURNING.server)
    finder._came(finder._by_node[RETURNING.server], Resume(1, 0, 0, ()), None)
    for _, _, action in finder._later:
        action()
    assert finder._planner.next_s == seen_s + RETURNING.options.lag_s
    assert finder._planner.traffic.rates_bps[0] == 5.0


@pytest.mark.parametrize("is_first", [True, False])
def test_a_server_that_was_lost_and_a_worker_that_had_ended_before_are_named(finder: Finder, is_first: bool) -> None:
    events = [
        lambda: finder._came(finder._by_node[RETURNING.workers[1]], End(), None),
        lambda: finder._lose(RETURNING.server),
    ]
    first, second = events if is_first else reversed(events)
    first()
    told = "the server on h2 was lost when workers had ended, with weights that are lost with it: h1"
    with pytest.raises(WorkerError, match=told):
        second()


def test_a_worker_ends_with_weights_of_the_new_server(finder: Finder) -> None:
    finder._lose(RETURNING.server)
    finder._came(finder._by_node[RETURNING.server], Resume(1, 0, 0, ()), None)
    for note in (Renewed(1), End()):
        finder._came(finder._by_node[RETURNING.workers[1]], note, None)
    assert finder._ended == {RETURNING.workers[1]}


def test_who_looks_for_the_server_gives_signs_of_life(finder: Finder) -> None:
    finder._lose(RETURNING.server)
    assert all(finder.signs.values())
