"""Circuits that move by what processes have still to send: which, when, what is recorded, and what it costs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import LabError
from testbed.control import reconfiguring
from testbed.control.feed import Feed
from testbed.control.reconfiguring import Bytes, Reconfiguring, Senders, joined, wanted
from testbed.perturb.circuits import Carried, State, reconfigured_cost
from testbed.perturb.events import Reconfiguration
from testbed.perturb.registry import PERTURBATIONS
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.hybrid.schemes import planned
from testbed.workloads.parallel.operators import scaled
from testbed.workloads.parallel.strategy import read
from testbed.workloads.sync.gate import DRAINED, ENDED, GO, HELLO, HOLD, MOVE, UNSENT, Said, beside, pack
from tests.patience import until
from tests.workloads.parallel.small import TABLES

from ..fake_lab import FakeLab

SERVERS = 4
NODES = SERVERS + 2  # with two panels
LINE = "circuits=[[0-1,2-3],[1-2]]"


def panels(arguments: str = LINE) -> Topology:
    return build(f"patch_panel(servers={SERVERS},degree=2,{arguments})", rate_bps=10**8)


def asked(**keys: Any) -> Reconfiguration:
    found = PERTURBATIONS["reconfigure"].model_validate({"kind": "reconfigure", **keys}).reconfiguration
    assert found is not None
    return found


def unsent(**pairs: int) -> Bytes:
    """``_03=5`` are 5 bytes from 0 to 3."""
    found = np.zeros((NODES, NODES), np.int64)
    for pair, count in pairs.items():
        found[int(pair[1]), int(pair[2])] = count
    return found


class Process(threading.Thread):
    """A process that answers: it has ``unsent`` to send, and has sent ``sent`` so far."""

    def __init__(self, path: Path, node: int, unsent: Bytes, sent: Bytes, *, deaf: bytes = b"") -> None:
        super().__init__(daemon=True)
        self.node, self.unsent, self.sent, self.deaf = node, unsent, sent, deaf
        self.heard: list[bytes] = []
        self.refuses = np.zeros(NODES, np.bool_)
        self.sock = beside(path, connect=True)
        self.say(HELLO, 0 * sent[node])
        self.start()

    def run(self) -> None:
        while message := self.sock.recv(100):
            self.heard.append(message)
            if message[:1] == UNSENT != self.deaf:
                self.say(UNSENT, self.unsent[self.node])
            elif message[:1] == HOLD != self.deaf:
                self.say(DRAINED, self.sent[self.node])
        self.sock.close()

    def say(self, word: bytes, counts: Bytes) -> None:
        self.sock.send(pack(Said(word, self.node, counts, 2 * counts, self.refuses)))

    def awaits(self, count: int) -> None:
        until(lambda: len(self.heard) == count)

    def end(self) -> None:
        self.say(ENDED, self.sent[self.node])
        self.sock.shutdown(2)


# Which circuits.


def test_circuits_go_to_those_with_most_to_send() -> None:
    found = wanted(panels(), unsent(_03=5, _30=1, _12=4), asked())
    assert found is not None
    assert found.panels is not None
    assert found.panels.lit == (((0, 3), (1, 2)), ((0, 3), (1, 2)))
    assert joined(found) == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_nothing_moves_where_nothing_is_unsent_or_the_same_servers_would_be_joined() -> None:
    assert wanted(panels(), unsent(), asked()) is None
    once = panels("circuits=[[0-3,1-2],[0-3]]")
    assert wanted(once, unsent(_03=5, _30=1), asked()) is not None
    same = panels("circuits=[[0-3],[0-3]]")
    assert wanted(same, unsent(_03=5, _30=1), asked()) is None
    swapped = panels("circuits=[[0-1,2-3],[0-2]]")  # on other panels, which makes no difference
    assert wanted(swapped, unsent(_02=9, _01=8, _23=5), asked()) is None


def test_panels_have_no_say_in_it() -> None:
    """What a panel is told of counts for nothing, for it sends nothing."""
    found = unsent(_03=5)
    found[4, 0] = 100
    target = wanted(panels(), found, asked())
    assert target is not None
    assert joined(target) == [(0, 3), (3, 0)]


@pytest.mark.parametrize(("discount", "between"), [("half", [1, 1, 1, 1]), ("one", [2, 0, 0, 2])])
def test_without_a_discount_circuits_are_parallel(discount: str, between: list[int]) -> None:
    """The example of issue and paper: all four pairs have as much to send as each other, or a little less."""
    demand = unsent(_01=8, _02=6, _13=6, _23=7)
    target = wanted(panels(), demand, asked(discount=discount))
    assert target is not None
    assert target.panels is not None
    lit = [pair for panel in target.panels.lit for pair in panel]
    assert [lit.count(pair) for pair in ((0, 1), (0, 2), (1, 3), (2, 3))] == between


# What processes say.


@pytest.fixture
def senders(tmp_path: Path) -> Iterator[Senders]:
    one = Senders(tmp_path / "gate", [f"h{number}" for number in range(NODES)])
    yield one
    one.close()


def met(senders: Senders, *processes: Process) -> None:
    until(lambda: [senders.listen(0.01), len(senders._node) == len(processes)][1])


def test_what_a_destination_refuses_is_not_unsent(senders: Senders, tmp_path: Path) -> None:
    demand = unsent(_01=5, _21=6, _10=7)
    processes = [Process(tmp_path / "gate", node, demand, unsent()) for node in range(3)]
    processes[1].refuses[2] = True
    met(senders, *processes)
    assert (senders.unsent() == unsent(_01=5, _10=7)).all()


def test_each_may_send_to_whom_it_is_joined_with(senders: Senders, tmp_path: Path) -> None:
    one, other = (Process(tmp_path / "gate", node, unsent(), unsent(_01=3, _10=4)) for node in range(2))
    met(senders, one, other)
    senders.hold()
    senders.go([(0, 1), (0, 3), (1, 0)])
    for process, may_send in ((one, [0, 1, 0, 1, 0, 0]), (other, [1, 0, 0, 0, 0, 0])):
        process.awaits(3)
        assert process.heard == [HOLD, MOVE, GO + bytes(may_send)]
    assert (senders.sent.stream_bytes == unsent(_01=3, _10=4)).all()


def test_who_has_ended_is_asked_no_more_and_what_it_had_sent_is_kept(senders: Senders, tmp_path: Path) -> None:
    one, other = (Process(tmp_path / "gate", node, unsent(_01=1, _10=2), unsent(_10=9)) for node in range(2))
    met(senders, one, other)
    other.end()
    until(lambda: [senders.listen(0.01), len(senders._node) == 1][1])
    assert (senders.unsent() == unsent(_01=1)).all()
    assert (senders.sent.stream_bytes == unsent(_10=9)).all()


@pytest.mark.parametrize("deaf", [UNSENT, HOLD])
def test_who_does_not_answer(senders: Senders, tmp_path: Path, deaf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconfiguring, "ANSWER_S", 0.05)
    processes = [Process(tmp_path / "gate", node, unsent(), unsent(), deaf=deaf * node) for node in range(2)]
    met(senders, *processes)
    with pytest.raises(LabError, match="h1 did not answer"):
        (senders.unsent if deaf == UNSENT else senders.hold)()


def test_who_does_not_hold_keeps_nobody_from_sending_over_the_circuits_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To others there is no way, and TCP would try ever more seldom."""
    monkeypatch.setattr(reconfiguring, "ANSWER_S", 0.05)
    lab = FakeLab()
    with Reconfiguring(lab, panels(), asked(every="10 ms", dark="1 ms"), tmp_path / "gate") as one:
        first = Process(tmp_path / "gate", 0, unsent(_03=5), unsent())
        Process(tmp_path / "gate", 1, unsent(), unsent(), deaf=HOLD)
        until(lambda: len(one._senders._node) == 2)
        one.look(began())
        until(lambda: len(one.records) >= 1 and HOLD in first.heard[:-1])
    assert not lab.asked("patch")
    after = first.heard[first.heard.index(HOLD) + 1]
    assert after == GO + bytes([0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "said", [b"", b"nonsense", pack(Said(HELLO, NODES, unsent()[0], unsent()[0], np.zeros(NODES, np.bool_)))]
)
def test_who_makes_no_sense_is_heard_no_more(senders: Senders, tmp_path: Path, said: bytes) -> None:
    one = Process(tmp_path / "gate", 0, unsent(_01=1), unsent())
    met(senders, one)
    with beside(tmp_path / "gate", connect=True) as stranger:
        stranger.send(said) if said else stranger.shutdown(2)
        until(lambda: [senders.listen(0.01), len(senders._socks) == 1][1])
    assert (senders.unsent() == unsent(_01=1)).all()


def test_who_speaks_for_another_is_heard_no_more(senders: Senders, tmp_path: Path) -> None:
    one = Process(tmp_path / "gate", 0, unsent(), unsent())
    met(senders, one)
    one.node = 1
    one.say(ENDED, unsent(_10=5)[1])
    until(lambda: [senders.listen(0.01), not senders.are_any][1])
    assert not senders.sent.stream_bytes.any()


# Moves.


def began() -> Feed:
    feed = Feed({})
    feed.begin()
    return feed


def test_moves_until_the_last_process_has_ended(tmp_path: Path) -> None:
    lab, topology = FakeLab(), panels()
    demand, sent = unsent(_03=5), unsent(_01=10)
    with Reconfiguring(lab, topology, asked(every="20 ms", dark="1 ms"), tmp_path / "gate") as one:
        processes = [Process(tmp_path / "gate", node, demand, sent) for node in range(SERVERS)]
        assert one.look(Feed({})) < math.inf
        time.sleep(0.03)
        assert not lab.asked("patch")  # the trial has not begun
        assert one.look(began()) == math.inf
        until(lambda: len(one.records) == 1)
        assert processes[1].heard[0] == GO + bytes([1, 0, 1, 0, 0, 0]), "over the circuits that are there at first"
        sent[0, 3], demand[0, 3], asked_before = 7, 0, len(processes[0].heard)
        until(lambda: len(processes[0].heard) > asked_before + 1)  # it has told so, before another asks for more
        demand[1, 2] = 8
        until(lambda: len(one.records) == 2)
        until(lambda: len(processes[1].heard) > 8)  # nothing moves any more, and it is asked again and again
        sent[1, 2] = 20
        for process in processes:
            process.end()
            process.join()
    assert [len(lab.asked(name)) for name in ("plan_patch", "patch")] == [2, 2]
    assert [joined(state.topology) for state in one.history[1:]] == [[(0, 3), (3, 0)], [(1, 2), (2, 1)]]
    carried = [state.carried for state in one.history]
    for found, expected in zip(carried, [unsent(_01=10), unsent(_03=7), unsent(_12=20)], strict=True):
        assert found is not None
        assert (found.stream_bytes == expected).all()
        assert (found.wire_bytes == 2 * expected).all()
    for record in one.records:
        assert record.error is None
        assert (record.what, record.takes_s) == ("1 circuits dark, 1 new", 0.001)
        assert record.planned_s is not None
        assert record.free_s is not None
        assert record.planned_s <= record.free_s


def test_a_move_that_the_lab_refuses_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LabError("the kernel refuses")

    lab = FakeLab()
    monkeypatch.setattr(lab, "patch", refuse)
    with Reconfiguring(lab, panels(), asked(every="10 ms", dark="1 ms"), tmp_path / "gate") as one:
        process = Process(tmp_path / "gate", 0, unsent(_03=5), unsent())
        one.look(began())
        until(lambda: len(one.records) >= 2)
    assert [record.error for record in one.records[:2]] == ["the kernel refuses"] * 2
    assert len(one.history) == 1
    assert GO + bytes([0, 1, 0, 0, 0, 0]) in process.heard


# What it costs.


def sent(**pairs: int) -> Carried:
    return Carried(unsent(**pairs), 2 * unsent(**pairs))


def test_bytes_pass_the_circuits_of_their_time() -> None:
    first, later = panels(), panels("circuits=[[0-3],[1-2]]")
    history = [State(first, carried=sent(_01=10, _02=4)), State(later, carried=sent(_03=6))]
    model = scaled(TABLES, 1000)
    plan = planned("ring", first, model, read(model, SERVERS, "data"))
    found = reconfigured_cost(plan, history, 2, 4 * plan.gradient_floats)
    by_ends = {
        (first.nodes[first.tail(link)].name, first.nodes[first.head(link)].name): count
        for link, count in enumerate(found.link_bytes.tolist())
        if count
    }
    # Half of it in each of two iterations; from 0 to 2 by way of 1.
    assert by_ends == {
        **{("h0", "p0"): 10.0, ("p0", "h1"): 7.0, ("h1", "p1"): 2.0, ("p1", "h2"): 2.0},
        **{("p0", "h3"): 3.0},
    }
    assert found.moved
    # Each server has two links of 100 Mbit/s for three quarters of the gradient, twice.
    assert found.bound_s() == pytest.approx(1.5 * 4 * plan.gradient_floats * 8 / 2e8)
