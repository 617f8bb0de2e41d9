"""Processes of machines at a socket of the controller: what each end says arrives at the other, whole and in order."""

from __future__ import annotations

import base64
import json
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import HostError
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.base import MOST_RELAYED_BYTES
from testbed.lab.machines.controller import relay as ours
from testbed.lab.machines.on_machine import processes, relay
from testbed.lab.machines.on_machine.processes import ShareProcesses
from testbed.lab.programs import Exit
from testbed.workloads.sync.gate import beside
from tests.patience import until


class Machine:
    """A machine whose agent does one thing after the other, as :meth:`step` is called."""

    def __init__(self, path: Path) -> None:
        self._selector = selectors.DefaultSelector()
        self.relay, self.path = relay.Relay(self._selector), path
        self.relay.listen(path)
        self._asked: deque[Any] = deque()

    def begin(self, call: Any) -> None:
        assert call.name == "say"
        self._asked.append(call.arguments)

    def step(self) -> None:
        while self._asked:
            asked = self._asked.popleft()
            self.relay.say(asked["socket"], base64.b64decode(asked["message"]))
        for key, _ in self._selector.select(0):
            key.data()

    def connected(self) -> socket.socket:
        """A process's end of its connection."""
        sock = beside(self.path, connect=True)
        sock.setblocking(False)
        return sock


class Machines:
    """A fleet of two such machines; what a machine tells is read as if it came by SSH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections = [Machine(folder / f"machine{number}") for number in range(2)]
        self.relayed: Any = None
        self._steps = 0  # which machine does something now
        monkeypatch.setattr(relay, "tell", self._tell)

    def _tell(self, **fields: Any) -> None:
        self.relayed(self._steps, answers.message(json.dumps(fields).encode()))

    def until(self, reached: Callable[[], Any]) -> Any:
        """Let agents do what there is to do until it is reached."""

        def step() -> Any:
            for number, machine in enumerate(self.connections):
                self._steps = number
                machine.step()
            return reached()

        return until(step)


def message(sock: socket.socket) -> bytes | None:
    """The next message; None if there is none yet, and empty once the connection has ended."""
    try:
        return sock.recv(1000)
    except BlockingIOError:
        return None


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    found = Machines(tmp_path, monkeypatch)
    yield found
    for machine in found.connections:
        machine.relay.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The controller's socket."""
    with beside(tmp_path / "controller", connect=False) as sock:
        sock.setblocking(False)
        yield sock


def accepted(machines: Machines, listener: socket.socket) -> socket.socket:
    """The controller's end of the next connection."""

    def found() -> socket.socket | None:
        try:
            return listener.accept()[0]
        except BlockingIOError:
            return None

    sock: socket.socket = machines.until(found)
    sock.setblocking(False)
    return sock


def test_each_process_has_a_connection_of_its_own(machines: Machines, listener: socket.socket, tmp_path: Path) -> None:
    relay = ours.Relay(machines, tmp_path / "controller")  # type: ignore[arg-type]
    theirs, here = [], []
    for number in (0, 1, 1):
        theirs.append(machines.connections[number].connected())
        theirs[-1].send(b"hello %d" % len(theirs))
        here.append(accepted(machines, listener))
    for number, sock in enumerate(here):
        assert machines.until(lambda sock=sock: message(sock)) == b"hello %d" % (number + 1)
        for word in (b"hold", b"go", bytes(300)):
            sock.send(word)
        got = [machines.until(lambda number=number: message(theirs[number])) for _ in range(3)]
        assert got == [b"hold", b"go", bytes(300)]
    theirs[1].send(b"sent all")
    theirs[1].close()
    assert [machines.until(lambda: message(here[1]) is not None and [True]), message(here[1])] == [[True], b""]
    here[0].close()
    assert machines.until(lambda: message(theirs[0]) == b"")
    assert message(theirs[2]) is None, "the others' stay"
    relay.close()


def test_nobody_waits_for_a_controller_that_listens_no_more(
    machines: Machines, listener: socket.socket, tmp_path: Path
) -> None:
    relay = ours.Relay(machines, tmp_path / "controller")  # type: ignore[arg-type]
    early, late = (machine.connected() for machine in machines.connections)
    early.send(b"hello")
    here = accepted(machines, listener)
    listener.close()
    here.close()
    assert machines.until(lambda: message(early) == b"")
    late.send(b"hello")
    machines.until(lambda: True)
    relay.close()
    late.send(b"still there")
    machines.until(lambda: True)
    for machine in machines.connections:
        machine.relay.close()
    assert message(late) == b""


def test_last_words_of_a_process_are_told_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the agent notices its end first."""

    class Lab:
        def exits(self) -> list[Exit]:
            return [Exit("h0", 0, 0, 1.0, 2.0)]

    told: list[dict[str, Any]] = []
    for name in (relay.__name__, "testbed.lab.baremetal.on_hosts.processes"):
        monkeypatch.setattr(f"{name}.tell", lambda **of: told.append(of))
    one = ShareProcesses(tmp_path, selectors.DefaultSelector())
    one.relay.listen(tmp_path / "socket")
    one.lab = Lab()  # type: ignore[assignment]
    one._children[-1] = processes.Child(0.0, worker="h0")
    with beside(tmp_path / "socket", connect=True) as sock:
        sock.send(b"sent all")
    one.reap()
    assert [next(iter(of)) for of in told] == ["socket", "socket", "exit"]
    assert [base64.b64decode(of["message"]) for of in told[:2]] == [b"sent all", b""]
    one.relay.close()


def test_a_process_that_connects_again_and_again_gets_no_more_of_the_agents_files(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_SOCKETS", 2)
    monkeypatch.setattr(relay, "MOST_IN_ALL", 3)
    machines.relayed = lambda *_: None
    machine = machines.connections[0]
    first, second, third = (machine.connected() for _ in range(3))
    assert machines.until(lambda: message(third) == b"")
    assert message(first) is message(second) is None
    second.close()
    machines.until(lambda: len(machine.relay._sockets) == 1)
    fourth, fifth = machine.connected(), machine.connected()
    first.close()
    assert machines.until(lambda: message(fifth) == b"")
    assert message(fourth) is None


@pytest.mark.parametrize(
    "said",
    [
        {"socket": -1, "message": ""},
        {"socket": answers.MOST_SOCKETS, "message": ""},
        {"socket": 1, "message": "abc"},
        {"socket": 1, "message": base64.b64encode(bytes(MOST_RELAYED_BYTES + 1)).decode()},
    ],
)
def test_what_no_agent_relays_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(HostError, match="which no agent says"):
        answers.message(json.dumps(said).encode())


def test_a_host_that_has_no_socket_tells_of_none() -> None:
    host: Any = object()
    with pytest.raises(HostError, match="it tells of a socket, and has none"):
        Fleet([host]).on_event(host, answers.Relayed(socket=1, message=base64.b64encode(b"hello")))
