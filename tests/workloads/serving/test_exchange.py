"""Barriers that go up and down a tree of processes, and messages that nobody may send."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from socket import SHUT_RDWR, socket, socketpair

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, TrialTimeoutError, WorkerError
from testbed.workloads.serving.exchange import LONGEST_BYTES, NOTE, Exchange, Floats, Holder
from testbed.workloads.sync.connection import Connection

NAMES = ("worker", "daemon", "scheduler")


class Process(Holder, Exchange):
    """Takes notes, and is done after the first one; ``floats`` is the array for floats of its neighbours."""

    def __init__(self, node: int, sockets: dict[int, socket], floats: Floats | None = None) -> None:
        super().__init__(NAMES[node], NAMES, sockets)
        self._parents = [peer for peer in sockets if peer > node]
        self._children = [peer for peer in sockets if peer < node]
        self.floats, self.notes = floats, list[bytes]()

    def _floats_of(self, connection: Connection) -> Floats | None:  # noqa: ARG002
        return self.floats

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:  # noqa: ARG002
        self.notes.append(note)

    @property
    def _is_done(self) -> bool:
        return bool(self.notes)

    def _waits_for(self, connection: Connection) -> bool:  # noqa: ARG002
        return not self._is_done

    def _lacks(self) -> str:
        return ", ".join(NAMES[node] for node in self._missing(self.met))


@pytest.fixture
def chain() -> Iterator[tuple[Process, Process, Process]]:
    lower, upper = socketpair(), socketpair()
    with ExitStack() as stack:
        made = Process(0, {1: lower[0]}), Process(1, {0: lower[1], 2: upper[0]}), Process(2, {1: upper[1]})
        for process in made:
            stack.enter_context(process)
        yield made


def meet(*processes: Process) -> None:
    """Let processes come to a barrier."""
    threads = [threading.Thread(target=process.barrier, args=(5.0,), daemon=True) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5.0)
        assert not thread.is_alive()


@pytest.mark.parametrize("rounds", [1, 2])
def test_all_leave_a_barrier_once_the_last_one_has_come(
    chain: tuple[Process, Process, Process], monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(Process, "_rounds", rounds)
    meet(*chain)
    assert [sorted(process.met.values()) for process in chain] == [[rounds], [rounds, rounds], [rounds]]


def test_nobody_leaves_a_barrier_before_the_last_one_has_come(chain: tuple[Process, Process, Process]) -> None:
    worker, daemon, scheduler = chain
    with pytest.raises(TrialTimeoutError, match=r"scheduler made no progress for 0\.05 s; it waits for daemon"):
        scheduler.barrier(0.05)
    with pytest.raises(TrialTimeoutError, match="it waits for worker, scheduler"):
        daemon.barrier(0.05)
    with pytest.raises(TrialTimeoutError, match="it waits for daemon"):
        worker.barrier(0.05)


def test_a_child_that_has_ended_is_named_at_the_barrier(chain: tuple[Process, Process, Process]) -> None:
    worker, daemon, _ = chain
    worker._by_node[1].sock.shutdown(SHUT_RDWR)
    with pytest.raises(NeighbourError, match="lost the connection to worker"):
        daemon.barrier(5.0)


def test_a_process_serves_until_it_is_done(chain: tuple[Process, Process, Process]) -> None:
    worker, daemon, _ = chain
    worker._tell(worker._by_node[1], NOTE, b"last")
    worker._move()
    assert list(daemon.serve(1, 0, 7, 5.0)) == [7]
    assert daemon.notes == [b"last"]


@pytest.mark.parametrize(
    ("header", "floats", "problem"),
    [
        (3 << 28, True, "a message of kind 3"),
        (2 << 28, False, "a message of kind 2"),
        (2 << 28 | 1, True, "a message of kind 2 and 1 bytes"),
        (1 << 28 | LONGEST_BYTES + 1, False, "a message of kind 1 and 16,777,217 bytes"),
    ],
)
def test_what_nobody_sends_is_refused_by_name(header: int, floats: bool, problem: str) -> None:
    ours, theirs = socketpair()
    with theirs, Process(1, {0: ours}, np.zeros(1, np.float32) if floats else None) as process:
        theirs.sendall(header.to_bytes(4, "big"))
        with pytest.raises(WorkerError, match=f"daemon got {problem} from worker, and does not expect it"):
            process.poll(1.0)
