"""A worker's side of going on: leaving, waiting for a job, and taking weights from another."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import NeighbourError, TrialTimeoutError
from testbed.workloads import failover
from testbed.workloads.job import Compute, Failover, Peer, Training, WorkerJob
from testbed.workloads.learning.training import Replica
from tests import ports

NAMES = ("h0", "h1")

TRAINING = Training("resnet8", "digits", batch=4, iterations=9, learning_rate=0.01, momentum=0.9, seed=3)
ERROR = NeighbourError("lost the connection to h7")

_ports = ports.blocks(1)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., WorkerJob]:
    """A job of node n in a trial that goes on; ``changes`` are fields of Failover."""

    def make(node: int, **changes: object) -> WorkerJob:
        found = Failover(0, str(tmp_path), silence_s=5.0)
        return WorkerJob(
            node=node,
            name=f"h{node}",
            rank=node,
            world=2,
            forest="",
            peers=(),
            training=TRAINING,
            compute=Compute("real"),
            overlap="none",
            buckets=((0, 77_562),),
            chunk_bytes=1 << 16,
            congestion_control="reno",
            timeout_s=5.0,
            start_timeout_s=5.0,
            samples=str(tmp_path / "samples.jsonl"),
            failover=dataclasses.replace(found, **changes),  # type: ignore[arg-type]
        )

    return make


def test_who_leaves_says_how_far_it_came_and_takes_the_job_that_is_there_then(
    job: Callable[..., WorkerJob], tmp_path: Path
) -> None:
    new, left = job(0, generation=1, first=4), failover.checked_in(tmp_path / "samples.jsonl", 0)

    def answer() -> None:
        while not left.exists():
            time.sleep(0.01)
        failover.write_whole(failover.next_job(str(tmp_path), "h0"), new.text())

    coordinator = threading.Thread(target=answer)
    coordinator.start()
    assert failover.rejoin(job(0), 4, ERROR) == new
    coordinator.join()
    said = json.loads(left.read_text())
    assert said == {"completed": 4, "error": "lost the connection to h7"}


def test_who_gets_no_job_fails_with_what_made_it_leave(job: Callable[..., WorkerJob]) -> None:
    alone = dataclasses.replace(job(0, silence_s=0.05), timeout_s=0.05)
    with pytest.raises(NeighbourError, match="lost the connection to h7"):
        failover.rejoin(alone, 4, ERROR)


def test_a_trial_that_does_not_go_on_fails_at_once(job: Callable[..., WorkerJob]) -> None:
    began = time.monotonic()
    with pytest.raises(NeighbourError, match="lost the connection to h7"):
        failover.rejoin(dataclasses.replace(job(0), failover=None), 4, ERROR)
    assert time.monotonic() - began < job(0).timeout_s / 2


def test_a_generation_is_called_off_by_a_file(job: Callable[..., WorkerJob], tmp_path: Path) -> None:
    look = failover.called_off(job(0))
    look()
    failover.write_whole(tmp_path / failover.CALL, "")
    with pytest.raises(NeighbourError, match="another node has died"):
        look()
    failover.called_off(dataclasses.replace(job(0), failover=None))()


def two(job: Callable[..., WorkerJob], **changes: object) -> tuple[WorkerJob, WorkerJob]:
    """One that has done four iterations, and one that has done three."""
    port = next(_ports)
    ahead = job(0, first=4, state=(Peer(1, "127.88.0.1", "127.88.0.2", port),), **changes)
    behind = job(1, first=4, state=(Peer(0, "127.88.0.2", "127.88.0.1", port),), **changes)
    return ahead, behind


def trained(steps: int) -> Replica:
    replica = Replica(TRAINING)
    for i in range(steps):
        replica.compute(*replica.samples(i, 0, 1))
        replica.step(1)
    return replica


def test_who_is_behind_has_then_the_same_to_the_last_bit(job: Callable[..., WorkerJob]) -> None:
    ahead, behind = two(job)
    giver, taker = trained(4), trained(3)
    assert not np.array_equal(giver.weights, taker.weights)
    giving = threading.Thread(target=failover.catch_up, args=(ahead, giver, 4, NAMES))
    giving.start()
    failover.catch_up(behind, taker, 3, NAMES)
    giving.join()
    assert np.array_equal(giver.weights, taker.weights)
    assert np.array_equal(giver.velocity, taker.velocity)


def test_half_of_the_weights_are_none(job: Callable[..., WorkerJob], monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, behind = two(job)
    giver, taker = trained(4), trained(3)
    before = taker.weights.copy()

    def dies(sock: socket.socket, data: memoryview) -> None:
        sock.sendall(data[:1000])
        raise ConnectionError("this is where it dies")

    monkeypatch.setattr(failover, "_send", dies)

    def give() -> None:
        with pytest.raises(NeighbourError):
            failover.catch_up(ahead, giver, 4, NAMES)

    giving = threading.Thread(target=give)
    giving.start()
    with pytest.raises(NeighbourError, match="lost the connection for weights: it was closed"):
        failover.catch_up(behind, taker, 3, NAMES)
    giving.join()
    assert np.array_equal(taker.weights, before)


def test_who_gives_nothing_is_noticed(job: Callable[..., WorkerJob], monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, behind = two(job, silence_s=0.3)
    over = threading.Event()
    monkeypatch.setattr(failover, "_send", lambda *_: over.wait(10))
    giving = threading.Thread(target=failover.catch_up, args=(ahead, trained(0), 4, NAMES))
    giving.start()
    with pytest.raises(TrialTimeoutError, match=r"no weights moved for 0\.3 s"):
        failover.catch_up(behind, trained(0), 3, NAMES)
    over.set()
    giving.join()
