"""A worker's side of going on when another process of its trial has died: files in, files out, as ever.

Problem: some nodes lose a connection, others only wait for sums that will not come; sums are made in place, so the
gradient of the iteration is spoilt; and some workers may have had its sum, and taken their step, when others have not.

Chosen: a node that loses a neighbour, or waits in vain, closes all its connections. So its neighbours lose one too, and
in a moment all nodes know. Each then checks in: it says how many iterations it has done, and waits for its next job.
The harness (:mod:`testbed.recovery.failover`) writes these jobs once each process has checked in or is known to be
dead: a forest of the living, and the iteration to go on with. That is the highest iteration that any of them has
reached. A worker that has done fewer iterations takes weights and optimiser state from one that has reached it, as in
elastic training (TorchElastic, Horovod's ``state.sync``). Then all compute that iteration's gradient again, because
fewer workers share the samples.

Rejected: keeping a copy of each gradient to send again, which costs every iteration time and memory, and would leave
the dead worker's samples out; workers agreeing among themselves, as Rina's do, because the lab knows at once which
one has died.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from testbed.base.errors import NeighbourError, TestbedError, TrialTimeoutError
from testbed.base.process_names import file_name
from testbed.workloads.job import WorkerJob
from testbed.workloads.sync import transport

if TYPE_CHECKING:
    from testbed.workloads.learning.training import (
        Replica,  # whose module imports torch, for which the harness has no use
    )

SAMPLES = "samples.jsonl"
"""End of the name of a samples file; of several processes that share a folder, each has a beginning of its own."""
CALL = "called"
"""Name of a file in a generation's folder by which all are told to leave it and to check in."""
_LOOK_S = 0.02


def checked_in(samples: Path, generation: int) -> Path:
    """Return the file that a process writes when it leaves a generation: ``completed`` iterations, and ``error``."""
    return samples.with_name(f"{samples.name.removesuffix(SAMPLES)}{generation}.left")


def next_job(folder: str, name: str) -> Path:
    """Return the file of the job with which a process goes on from a generation."""
    return Path(folder) / f"{file_name(name)}.next"


def called_off(job: WorkerJob) -> Callable[[], None]:
    """Make a function that raises NeighbourError once all are to leave this job's generation."""
    if job.failover is None:
        return lambda: None
    call = Path(job.failover.folder) / CALL

    def look() -> None:
        if call.exists():
            raise NeighbourError("another node has died", fix="see why it died")

    return look


def rejoin(job: WorkerJob, completed: int, error: TestbedError) -> WorkerJob:
    """Leave the generation for ``error`` and return the job to go on with, when it is there.

    Raises:
        TestbedError: the same, if this trial does not survive, or no job comes in time.
    """
    if job.failover is None:
        raise error
    folder, name = job.failover.folder, job.name
    left = checked_in(Path(job.samples), job.failover.generation)
    write_whole(left, json.dumps({"completed": completed, "error": error.problem}))
    print(
        f"{name} leaves generation {job.failover.generation} after {completed} iterations: {error.problem}", flush=True
    )
    deadline = time.monotonic() + job.failover.silence_s + job.timeout_s
    while not next_job(folder, name).exists():
        if time.monotonic() >= deadline:
            raise error
        time.sleep(_LOOK_S)
    return WorkerJob.load(next_job(folder, name))


def catch_up(job: WorkerJob, replica: Replica, completed: int, names: Sequence[str]) -> None:
    """Give weights and velocity to workers that have done fewer iterations, or take them if this worker has.

    ``names`` are those of all nodes, by index.

    Raises:
        NeighbourError, TrialTimeoutError: the other one is gone, or silent.
    """
    failover = job.failover
    if failover is None or not failover.state:
        return
    look, limit_s = called_off(job), failover.silence_s
    sockets = transport.connect(job.node, failover.state, names, job.congestion_control, limit_s, look)
    try:
        for sock in sockets.values():
            sock.settimeout(limit_s)
            if completed < failover.first:
                _take(sock, replica)
                replica.put()
            else:
                replica.fetch()
                for part in (replica.weights, replica.velocity):
                    _send(sock, part.data.cast("B"))
    except TimeoutError:
        raise TrialTimeoutError(f"no weights moved for {limit_s:g} s", fix="see why the other worker stopped") from None
    except ConnectionError as problem:
        raise NeighbourError(f"lost the connection for weights: {problem}", fix="see why its worker ended") from None
    finally:
        for sock in sockets.values():
            sock.close()


def _send(sock: socket.socket, data: memoryview) -> None:
    """Send all data. The timeout of ``sendall`` counts from its start; here it counts for each piece."""
    while data:
        data = data[sock.send(data) :]


def _take(sock: socket.socket, replica: Replica) -> None:
    """Take weights and velocity, all or nothing: a sender that dies half-way leaves this worker as it was."""
    parts = [np.empty_like(replica.weights), np.empty_like(replica.velocity)]
    for part in parts:
        left = part.data.cast("B")
        while left:
            count = sock.recv_into(left)
            if not count:
                raise ConnectionError("it was closed")
            left = left[count:]
    replica.weights[:], replica.velocity[:] = parts


def is_over(job: WorkerJob) -> bool:
    """Whether every iteration was done in earlier generations."""
    return job.failover is not None and job.failover.first >= job.training.iterations


def write_whole(path: Path, text: str) -> None:
    """Write a file such that a reader sees either no file or all of it."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.replace(path)
