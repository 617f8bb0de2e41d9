"""Messages leave a connection whole, in the order of their ranks and, within one, of their queuing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.workloads.sync.connection import HEADER_BYTES, Connection

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(st.none(), st.tuples(st.integers(-9, 0), st.sampled_from([0, 1, 400, 70_000]))), max_size=60
    )
)
def test_any_queuing_and_flushing(pair: Pair, steps: list[tuple[int, int] | None]) -> None:
    """None flushes once; a pair queues a message of that rank and size. The other end reads only at the end of each
    example, so what the kernel does not take stays queued and is overtaken."""
    near, far = pair
    connection = Connection(1, "h1", near, ordered=True)
    sent: list[tuple[int, int, int]] = []
    for step in steps:
        if step is None:
            _flush(connection)
            continue
        rank, size = step
        connection.push(len(sent), memoryview(bytes([len(sent)]) * size), rank)
        sent.append((len(sent), rank, size))
    arrived = _drain(connection, far, {word: size for word, _, size in sent})
    assert sorted(arrived) == [word for word, _, _ in sent]
    ranks = [rank for _, rank, _ in sent]
    for first, second in pairwise(arrived):
        assert first < second or ranks[first] < ranks[second], "only a lower rank may overtake"
    if None not in steps:
        assert arrived == sorted(arrived, key=lambda word: (ranks[word], word))


@given(st.lists(st.integers(0, 50), max_size=9), st.integers(1, 60))
def test_no_more_leaves_than_may(sizes: list[int], most_bytes: int) -> None:
    near, far = socket.socketpair()
    stream = b""
    with near, far:
        connection = Connection(1, "h1", near)
        for word, size in enumerate(sizes):
            connection.push(word, memoryview(bytes([word]) * size))
        while connection.sending:
            assert 0 < connection.flush(most_bytes) <= most_bytes
            assert connection.writable  # the kernel has taken all that it was given
            stream += far.recv(1000)
    assert stream == b"".join(word.to_bytes(4, "big") + bytes([word]) * size for word, size in enumerate(sizes))


def test_what_the_kernel_does_not_take_waits_until_it_says_so(pair: Pair) -> None:
    connection = Connection(1, "h1", pair[0])
    connection.push(0, memoryview(bytes(32 * 2**20)))
    while connection.writable:
        count = connection.flush(2**24)
    assert count < 2**24
    assert connection.sent_bytes < connection.pushed_bytes


def test_a_front_layer_overtakes_what_the_kernel_has_not_taken(pair: Pair) -> None:
    near, far = pair
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    connection = Connection(1, "h1", near, ordered=True)
    block = memoryview(bytes(1 << 20))
    for word in range(20):
        connection.push(word, block, 0)
    while connection.writable:
        connection.flush()
    connection.push(20, memoryview(b"front"), -1)
    sizes = dict.fromkeys(range(20), len(block)) | {20: 5}
    arrived = _drain(connection, far, sizes)
    assert arrived.index(20) < 16
    assert [word for word in arrived if word < 20] == list(range(20))


def test_a_message_may_change_until_its_turn_has_come(pair: Pair) -> None:
    """What makes it ready is called in the order of sending, and not for what the kernel has no room for."""
    near, far = pair
    connection = Connection(1, "h1", near, ordered=True)
    payloads = [bytearray(1 << 20) for _ in range(20)]
    turns: list[int] = []

    def turn(word: int) -> Callable[[], None]:
        def act() -> None:
            turns.append(word)
            payloads[word][:] = bytes([word]) * len(payloads[word])

        return act

    for word, payload in enumerate(payloads):
        connection.push(word, memoryview(payload), 0, turn(word))
    while connection.writable:
        connection.flush()
    assert 0 < len(turns) < 20
    far.settimeout(10)
    for word in range(20):
        message = word.to_bytes(HEADER_BYTES, "big") + bytes([word]) * (1 << 20)
        assert _exactly(far, connection, len(message)) == message
    assert turns == list(range(20))


def _exactly(far: socket.socket, connection: Connection, count: int) -> bytes:
    """So many bytes at the other end, while this one goes on sending."""
    found = b""
    while len(found) < count:
        found += far.recv(count - len(found))
        connection.writable = True
        _flush(connection)
    return found


def _flush(connection: Connection) -> None:
    if connection.sending and connection.writable:
        connection.flush()


def _drain(connection: Connection, far: socket.socket, sizes: dict[int, int]) -> list[int]:
    """Flush and read until all has arrived; the words in the order of arrival. Every payload must be whole."""
    stream, left = bytearray(), sum(HEADER_BYTES + size for size in sizes.values())
    far.settimeout(10)
    while left:
        connection.writable = True
        _flush(connection)
        stream += (piece := far.recv(min(left, 1 << 20)))
        left -= len(piece)
    words, at = [], 0
    while at < len(stream):
        word = int.from_bytes(stream[at : at + HEADER_BYTES], "big")
        payload = stream[at + HEADER_BYTES : at + HEADER_BYTES + sizes[word]]
        assert word == 20 or payload == bytes([payload[0] if payload else 0]) * sizes[word]
        words.append(word)
        at += HEADER_BYTES + sizes[word]
    return words
