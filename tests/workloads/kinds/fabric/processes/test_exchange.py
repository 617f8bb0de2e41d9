"""When a process loses a neighbour, and when it gives up waiting."""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.kinds.fabric.processes.exchange import Exchange
from testbed.workloads.kinds.fabric.processes.messages import NEAR_S, End, Note, Weights
from testbed.workloads.kinds.fabric.processes.moments import NOTES, Clock, Coming
from testbed.workloads.serving.exchange import FLOATS as _FLOATS
from testbed.workloads.serving.watched import Seek
from testbed.workloads.sync.connection import HEADER_BYTES, LostError
from testbed.workloads.sync.tcp_info import unread_bytes
from tests.patience import PATIENCE_S, until
from tests.tcp import is_reset


class Process(Exchange):
    """Waits for its one neighbour; ``losable`` says that it goes on without it."""

    def __init__(self, name: str, sock: socket.socket, *, losable: bool) -> None:
        super().__init__(name, {0: "other"}, {0: sock})
        self.losses: list[int] = []
        self._watch([0] if losable else [], 0.2)

    def _came(self, connection: object, note: Note, floats: object) -> None:  # noqa: ARG002 - as its base has it
        self._over = True

    def _has_lost(self, node: int) -> None:
        self.losses.append(node)

    def barrier(self, timeout_s: float) -> None:
        raise NotImplementedError

    def _awaited(self) -> str:
        return "for other"

    def wait(self, timeout_s: float) -> float:
        self._until(lambda: self._over or bool(self.losses), timeout_s)
        return 0.0


Made = tuple[Process, Process]


@pytest.fixture
def made() -> Iterator[Callable[[bool], Made]]:
    found: list[Process] = []

    def make(losable: bool) -> Made:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
        found.extend([Process("one", ours, losable=losable), Process("two", theirs, losable=True)])
        return found[0], found[1]

    yield make
    for process in found:
        process.close()


def test_who_gives_signs_of_life_is_not_lost_and_they_are_no_progress(made: Callable[[bool], Made]) -> None:
    one, two = made(True)
    thread = threading.Thread(target=two.poll, args=(0.8,))
    thread.start()
    with pytest.raises(TrialTimeoutError, match=r"one made no progress for 0\.6 s; it waits for other"):
        one.wait(0.6)
    assert not one.losses
    thread.join()


def test_who_is_silent_is_lost(made: Callable[[bool], Made]) -> None:
    one, _ = made(True)
    one.wait(5.0)
    assert one.losses == [0]


def test_what_a_neighbour_said_before_it_ended_is_heard(made: Callable[[bool], Made]) -> None:
    """It has ended with bytes unread, so its end is a reset, and what is sent to it fails."""
    one, two = made(True)
    (ours,), (theirs,) = one._connections, two._connections
    one._give_signs(time.monotonic())
    ours.flush()
    until(lambda: select.select([theirs.sock], [], [], 0)[0])
    two._give_signs(time.monotonic())
    two._say(0, End())
    theirs.flush()
    until(lambda: select.select([ours.sock], [], [], 0)[0])
    theirs.sock.close()
    until(lambda: is_reset(ours.sock))
    one._give_signs(time.monotonic())
    one.wait(5.0)
    assert one._over
    assert not one.losses


def test_a_message_that_was_read_with_the_floats_before_it_is_heard(made: Callable[[bool], Made]) -> None:
    one, two = made(True)
    (ours,), (theirs,) = one._connections, two._connections
    floats = np.zeros(1000, np.float32)
    one._announced[0] = Weights(0, 0, 0, (), (), ()), floats
    two._push(theirs, _FLOATS, floats.data.cast("B"))
    two._say_barrier(0)
    one._give_signs(time.monotonic())
    ours.flush()
    until(lambda: select.select([theirs.sock], [], [], 0)[0])
    theirs.flush()
    until(lambda: unread_bytes(ours.sock) == floats.nbytes + 2 * HEADER_BYTES)
    theirs.sock.close()
    until(lambda: is_reset(ours.sock))
    one._give_signs(time.monotonic())
    one._move()
    assert one._over
    one._move()
    assert one.met[0] == 1


def test_whoever_ends_waits_until_what_it_has_sent_is_there(
    made: Callable[[bool], Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset would throw it away: here the neighbour has no room yet."""
    monkeypatch.setattr("testbed.workloads.sync.connection.LINGER_S", PATIENCE_S)
    one, two = made(True)
    (ours,), (theirs,) = one._connections, two._connections
    two._give_signs(time.monotonic())
    theirs.flush()
    count = 0
    with suppress(BlockingIOError):
        while True:
            count += ours.sock.send(bytes(2**20))
    closing = threading.Thread(target=one.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    theirs.sock.setblocking(True)
    with suppress(ConnectionResetError):
        while count and (piece := theirs.sock.recv(min(count, 2**20))):
            count -= len(piece)
    closing.join()
    assert not count


def test_who_may_not_be_lost_ends_it_by_name(made: Callable[[bool], Made]) -> None:
    one, _ = made(False)
    with pytest.raises(LostError, match=r"lost the connection to other: nothing came from it for 0\.2 s"):
        one.wait(5.0)


def test_who_is_started_again_may_be_silent_if_it_was_ended_for_that(
    made: Callable[[bool], Made], tmp_path: Path
) -> None:
    fenced = tmp_path / "fenced"
    one, two = made(False)
    one._watch([], 0.2, {0: Seek(lambda _: two._by_node[0].sock, fenced)})
    with pytest.raises(LostError, match=r"nothing came from it for 0\.3 s"):
        one.wait(5.0)
    fenced.write_text("{}\n")
    one.wait(5.0)
    assert one.losses == [0]


def test_a_process_that_was_found_is_not_ended_any_more(tmp_path: Path) -> None:
    fenced, (ours, theirs) = tmp_path / "fenced", socket.socketpair()
    seek = Seek(lambda _: ours, fenced)
    assert not seek.is_due()
    for _ in range(2):
        with fenced.open("a") as file:
            file.write("{}\n")
        assert seek.is_due()
        assert seek(lambda: None) is ours
        assert not seek.is_due()
    ours.close()
    theirs.close()


def test_the_fastest_note_tells_how_far_clocks_are_apart() -> None:
    """This clock is 100 s ahead; notes take 20, 1 and 30 ms."""
    clock = Clock()
    for said_s, took_s in ((1.0, 0.020), (2.0, 0.001), (3.0, 0.030)):
        clock.heard(said_s, said_s + 100.0 + took_s)
    assert clock.here_s(3.0) == pytest.approx(103.001)
    assert clock.told_s(103.001) == pytest.approx(3.0)


def test_before_anything_was_said_nothing_is_known() -> None:
    clock = Clock()
    assert clock.told_s(5.0) is None
    assert clock.here_s(5.0) == math.inf


def test_clocks_may_drift_apart() -> None:
    """Old notes are forgotten."""
    clock = Clock()
    clock.heard(0.0, 7.0)
    for number in range(NOTES):
        clock.heard(float(number), number + 7.5)
    assert clock.here_s(1.0) == 8.5


def told(coming: Coming, reads: list[tuple[int, float]]) -> list[float]:
    """The moments that were told, as bytes are left at a time."""
    found = [(now_s, coming.ends_in_s(left, now_s)) for left, now_s in reads]
    return [now_s + left_s for now_s, left_s in found if left_s is not None]


@given(st.integers(10, 10**6), st.floats(0.03, 10.0), st.integers(20, 200))
def test_the_end_of_what_comes_at_one_rate_is_told_once_and_exactly(nbytes: int, takes_s: float, reads: int) -> None:
    """With few reads it is told late, or never."""
    at = [(round(nbytes * (1 - part / reads)), takes_s * part / reads) for part in range(1, reads)]
    for end_s in (found := told(Coming(nbytes, 0.0), at)):
        assert end_s == pytest.approx(takes_s, abs=3 * takes_s / reads + takes_s / nbytes * 10)
    assert len(found) == (1 if takes_s / reads < NEAR_S / 2 else len(found)) <= 1


def test_what_comes_first_faster_than_the_rest_does_not_count() -> None:
    """A burst of 60 of 500 bytes, then 6 a millisecond."""
    reads = [(440 - 6 * ms, 0.001 * ms) for ms in range(73)]
    (end_s,) = told(Coming(500, 0.0), reads)
    assert end_s == pytest.approx(440 / 6000, abs=0.001)


def test_of_a_short_transfer_its_first_half_tells() -> None:
    assert told(Coming(100, 1.0), [(80, 1.002), (50, 1.005), (10, 1.009)]) == [pytest.approx(1.01)]
