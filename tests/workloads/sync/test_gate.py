"""The gate of a process: what it says, that nothing leaves while it is closed, and that nothing is left out."""

from __future__ import annotations

import math
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.job import Gated
from testbed.workloads.sync.connection import HEADER_BYTES, LOOK_S, Connection, LostError
from testbed.workloads.sync.gate import (
    DRAINED,
    ENDED,
    GO,
    GREETING_BYTES,
    HELLO,
    HOLD,
    MOVE,
    NOTHING,
    UNSENT,
    Gate,
    Said,
    beside,
    most_bytes,
    pack,
    unpack,
)
from testbed.workloads.sync.tcp_info import unacknowledged_bytes
from tests.patience import PATIENCE_S, until
from tests.tcp import is_reset

NODES = 3
SOME = Said(UNSENT, 1, np.array([5, 0, 2**40]), np.array([6, 0, 2**41]), np.array([True, False, False]))


@given(st.lists(st.tuples(st.integers(0, 2**62), st.booleans()), min_size=1, max_size=9), st.data())
def test_a_message_is_read_as_it_was_said(told: list[tuple[int, bool]], data: st.DataObject) -> None:
    counts, refuses = zip(*told, strict=True)
    node, word = data.draw(st.integers(0, len(told) - 1)), data.draw(st.sampled_from([UNSENT, HELLO, DRAINED, ENDED]))
    message = pack(Said(word, node, np.array(counts, np.int64), np.array(counts[::-1], np.int64), np.array(refuses)))
    assert len(message) == most_bytes(len(told))
    found = unpack(message, len(told))
    assert (found.word, found.node) == (word, node)
    assert (*found.count_bytes,) == counts
    assert (*found.wire_bytes,) == counts[::-1]
    assert (*found.refuses,) == refuses


@pytest.mark.parametrize(
    "message",
    [
        b"",
        pack(SOME)[:-1],
        pack(SOME) + b"\0",
        pack(SOME)[:-1] + b"\2",
        pack(SOME._replace(word=b"x")),
        pack(SOME._replace(node=3)),
        pack(SOME._replace(node=-1)),
        pack(SOME._replace(count_bytes=np.array([0, -1, 0]))),
        pack(SOME._replace(wire_bytes=np.array([0, 0, -1]))),
    ],
)
def test_a_message_that_makes_no_sense(message: bytes) -> None:
    with pytest.raises(ValueError, match="a message"):
        unpack(message, NODES)


@given(st.binary(max_size=2 * most_bytes(NODES)))
def test_any_bytes_are_a_message_or_none(message: bytes) -> None:
    try:
        said = unpack(message, NODES)
    except ValueError:
        return
    assert pack(said) == message


class Process:
    """A process on node 0 with a connection to each other node, and the other ends."""

    def __init__(self, folder: Path) -> None:
        folder = folder / ("long" * 30)  # beyond what a socket's name can have
        folder.mkdir()
        self.listener = beside(folder / "gate", connect=False)
        self.peers, self.connections = {}, []
        for node in (1, 2):
            with socket.create_server(("127.0.0.1", 0)) as server:
                self.peers[node] = socket.create_connection(server.getsockname())
                self.connections.append(Connection(node, f"h{node}", server.accept()[0]))
        self.gate = Gate(Gated(str(folder / "gate"), 16_384), 0, NODES, self.connections)
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(PATIENCE_S)

    def said(self) -> Said:
        return unpack(self.sock.recv(1000), NODES)

    def ask(self, word: bytes) -> Said:
        self.sock.send(word)
        return self.said()

    def flush(self) -> int:
        """What a loop does."""
        return sum(self.gate.flush(one) for one in self.connections if one.sending)

    def open(self, *nodes: int) -> None:
        """Let it send to these, and let it notice."""
        self.sock.send(GO + bytes(node in nodes for node in range(NODES)))
        assert select.select([self.gate], [], [], PATIENCE_S)[0]
        self.gate.opened()

    def fill(self, connection: Connection) -> None:
        """Send until the other end has no room that may be taken."""

        def is_full() -> bool:
            connection.writable = True
            return not unacknowledged_bytes(connection.sock) and not self.gate.flush(connection)

        connection.push(0, memoryview(bytes(10 * 2**20)))
        until(is_full)

    def close(self) -> None:
        for sock in (self.listener, self.sock, *self.peers.values(), *(one.sock for one in self.connections)):
            sock.close()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    one = Process(tmp_path)
    assert one.said().word == HELLO
    yield one
    one.gate.close()
    one.close()


def test_what_is_queued_is_told_and_held_until_the_gate_opens(process: Process) -> None:
    first, second = process.connections
    first.push(0, memoryview(bytes(100)))
    second.push(0, memoryview(bytes(50)))
    assert (*process.ask(UNSENT).count_bytes,) == (0, 100 + HEADER_BYTES, 50 + HEADER_BYTES)
    drained = process.ask(HOLD)
    assert drained.word == DRAINED
    assert not drained.count_bytes.any()
    assert process.flush() == 0

    process.sock.send(MOVE)
    process.open(2)
    assert not select.select([process.gate], [], [], 0)[0]
    assert process.flush() == 50 + HEADER_BYTES - GREETING_BYTES
    assert (*process.ask(HOLD).count_bytes,) == (0, 0, 50 + HEADER_BYTES)
    assert len(process.peers[2].recv(1000)) == 50 + HEADER_BYTES
    assert (*process.ask(UNSENT).count_bytes,) == (0, 100 + HEADER_BYTES, 0)


def test_the_kernel_gets_no_more_than_a_neighbour_has_room_for(process: Process) -> None:
    """The rest would leave when there is room, even into the dark."""
    first = process.connections[0]
    process.fill(first)
    assert 0 < first.sent_bytes < first.pushed_bytes
    assert first.writable
    assert process.gate.patience_s == LOOK_S
    drained = process.ask(HOLD)
    assert (drained.word, drained.count_bytes[1]) == (DRAINED, first.sent_bytes)
    assert process.ask(UNSENT).count_bytes[1] == first.pushed_bytes - first.sent_bytes

    process.sock.send(MOVE)
    process.open(1)
    process.peers[1].recv(first.sent_bytes, socket.MSG_WAITALL)
    until(process.flush)
    assert process.gate.patience_s == math.inf


def test_whom_it_may_send_to_again_hears_from_it_and_so_whether_there_is_room(process: Process) -> None:
    """Of what waits for that neighbour, even if there is no room for more of it; else a word that says nothing."""
    first, second = process.connections
    process.fill(first)
    before_bytes = first.sent_bytes
    process.ask(HOLD)
    process.sock.send(MOVE)
    process.open(1)
    assert first.sent_bytes == before_bytes + GREETING_BYTES
    assert not second.sent_bytes
    process.open(1, 2)
    assert first.sent_bytes == before_bytes + 2 * GREETING_BYTES
    assert process.peers[2].recv(1000) == NOTHING.to_bytes(HEADER_BYTES, "big")
    process.gate.opened()
    assert not second.sending
    assert second.sent_bytes == HEADER_BYTES


def test_whoever_has_ended_is_not_greeted_and_not_waited_for(process: Process) -> None:
    """What it sent before is still to be read."""
    second = process.connections[1]
    process.peers[2].send(b"last")
    process.peers[2].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    process.peers[2].close()
    until(lambda: is_reset(second.sock))
    process.open(1, 2)  # it has not looked at the connection
    assert not second.sending
    assert second.pushed_bytes == second.sent_bytes == second.payload_bytes == 0
    assert not second.closed
    assert second.read_header() == int.from_bytes(b"last", "big")
    assert process.ask(HOLD).word == DRAINED
    second.push(0, memoryview(bytes(5)))
    process.sock.send(MOVE)
    process.open(1)
    second.hung_up = True
    process.open(1, 2)  # which is not the place to say so
    with pytest.raises(LostError, match="lost the connection to h2"):
        process.gate.flush(second)


def test_whoever_has_ended_without_room_is_lost(process: Process) -> None:
    first = process.connections[0]
    process.fill(first)
    process.peers[1].close()  # with bytes unread, so a reset
    until(lambda: is_reset(first.sock))
    first.hung_up = True
    with pytest.raises(LostError, match="lost the connection to h1"):
        process.gate.flush(first)


def test_what_is_on_its_way_is_waited_for_only_where_it_can_arrive(process: Process) -> None:
    first = process.connections[0]
    first.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**22)
    first.push(0, memoryview(bytes(32 * 2**20)))
    while first.writable:
        first.flush()  # past the gate, and more than there is room for
    process.sock.send(HOLD)
    assert not select.select([process.sock], [], [], 0.05)[0]
    process.sock.send(MOVE)
    process.open(2)
    assert process.ask(HOLD).word == DRAINED
    process.peers[1].close()  # at its end, the gate waits for what is on its way


def test_nobody_holds_once_nobody_moves_circuits(process: Process) -> None:
    process.ask(HOLD)
    assert not process.gate.may_send(1)
    process.sock.close()
    until(lambda: process.gate.may_send(1))


def test_its_last_word_is_what_it_has_sent(tmp_path: Path) -> None:
    process = Process(tmp_path)
    assert process.said().word == HELLO
    process.connections[1].push(0, memoryview(bytes(50)))
    process.flush()
    process.gate.close()
    last = process.said()
    assert (last.word, *last.count_bytes) == (ENDED, 0, 0, 50 + HEADER_BYTES)
    assert last.wire_bytes[2] > 50 + HEADER_BYTES
    assert process.sock.recv(100) == b""
    process.close()


def test_without_a_listener(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Gate(Gated(str(tmp_path / "gate"), 16_384), 0, NODES, [])
