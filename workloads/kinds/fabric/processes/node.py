"""Start of the processes of a trial that MLfabric schedules: each gets its connections and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

import numpy as np

from testbed.workloads import tasks
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes import shared
from testbed.workloads.kinds.fabric.processes.client import Client
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.replica import Replica
from testbed.workloads.kinds.fabric.processes.replicated import Replicated
from testbed.workloads.kinds.fabric.processes.returned import Returned, Saved
from testbed.workloads.kinds.fabric.processes.scheduler import Scheduler, goodput_of
from testbed.workloads.kinds.fabric.processes.server import Apply, Server
from testbed.workloads.kinds.fabric.processes.survivor import Survival, Survivor
from testbed.workloads.kinds.fabric.sums import history
from testbed.workloads.kinds.fabric_sync.processes import RootDaemon, SumsClient, SumsServer
from testbed.workloads.learning import checkpoint
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.link_rates import NAME, Follower
from testbed.workloads.serving.watched import Seek
from testbed.workloads.sync import transport

if TYPE_CHECKING:
    from testbed.workloads.serving.exchange import Floats
    from testbed.workloads.tasks.base import Participant


def join(
    job: WorkerJob, plan: Fabric, part: Participant | None, makes_sums: bool
) -> Client | Daemon | Server | Replica | Scheduler:
    """Meet the other processes of the trial; ``makes_sums`` says that the server makes sums and has no weights.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    floats, address = job.buckets[-1][1], shared.place(job.forest, job.node)
    if part is not None:
        memory = shared.Memory.make(floats)
        sock = shared.reach_daemon(address, memory, job.start_timeout_s)
        client = SumsClient if makes_sums else Client
        return client(plan, job.node, sock, memory, part, _scale(job, plan))
    momentum = 0.0 if makes_sums else float(getattr(job.training, "momentum", 0.0))  # some tasks have none
    learning_rate = float(getattr(job.training, "learning_rate", 1.0))
    if job.node in plan.workers:
        worker, memory = shared.await_worker(address, floats, job.start_timeout_s)
    updates = job.training.iterations * job.world
    if job.restarts:
        sockets = transport.await_all(job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
        return _returned(job, plan, sockets, momentum)
    sockets = transport.connect(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
    seek = Seek(partial(_dial, job, plan), Path(job.fenced)) if job.fenced else None
    if job.node in plan.roots:
        return RootDaemon(plan, job.node, sockets, worker, memory)
    if job.node in plan.workers:
        return Daemon(plan, job.node, sockets, worker, memory, momentum, job.loss_s, seek)
    if job.node in plan.servers and makes_sums:
        return SumsServer(plan, job.node, sockets, floats)
    rates = plan.options.rates(learning_rate)
    if job.node in plan.servers:
        served = _served(job, momentum, spans(floats, len(plan.servers))[plan.servers.index(job.node)])
        keeper = Keeper(job.checkpoint, lambda: served.held[0])
        if job.loss_s is not None:
            survival = Survival(job.loss_s, updates)
            if plan.replica is None:
                survivor = Survivor(survival, plan, sockets, served.held, rates)
            else:
                survivor = Replicated(survival, plan, sockets, served.held, rates, momentum, served.arrays)
            survivor.keep(_keeper(job, served, survivor))
            return survivor
        return Server(plan, job.node, sockets, served.held, rates, momentum, keeper)
    if job.node == plan.replica:
        served = _served(job, momentum, (0, floats))
        return Replica(plan, sockets, served.held, rates, job.loss_s, served.arrays)
    seed = job.training.seed
    share = goodput_of(sockets[plan.server])
    told = Follower(Path(job.forest).parent / NAME, 2 * len(plan.links))
    work = Work(4 * floats, updates, momentum, seed, share, learning_rate)
    return Scheduler(plan, sockets, work, told, job.loss_s, seek)


def _dial(job: WorkerJob, plan: Fabric, meanwhile: Callable[[], None]) -> socket:
    """Find a server that is started again; ``meanwhile`` is called again and again.

    Raises:
        TrialTimeoutError: it does not come.
    """
    (peer,) = [one for one in job.peers if one.node == plan.server]
    return transport.reach(job.node, peer, plan.nodes, job.congestion_control, job.start_timeout_s, meanwhile)


def _returned(job: WorkerJob, plan: Fabric, sockets: Mapping[int, socket], momentum: float) -> Returned:
    """Make the server from its last checkpoint.

    Raises:
        WorkerError: that is none.
    """
    assert job.checkpoint is not None
    assert job.loss_s is not None
    floats, updates = job.buckets[-1][1], job.training.iterations * job.world
    served = _served(job, momentum, (0, floats))
    arrays, more = checkpoint.read(Path(job.checkpoint.path), floats, len(served.arrays))
    for array, saved in zip(served.arrays, arrays, strict=True):
        np.copyto(array, saved)
    rates = plan.options.rates(float(getattr(job.training, "learning_rate", 1.0)))
    server = Returned(Survival(job.loss_s, updates), plan, sockets, served.held, rates)
    server.resume(Saved.decode(more), job.restarts)
    server.keep(_keeper(job, served, server))
    return server


def _keeper(job: WorkerJob, served: _Served, server: Survivor) -> Keeper:
    """Make the writer of checkpoints of a server that goes on when others are lost; if the server may be started again,
    its checkpoints have all that a start needs."""
    if job.checkpoint is None or not job.checkpoint.resumes:
        return Keeper(job.checkpoint, lambda: served.held[0])

    def more() -> bytes:
        velocity = b"".join(array.tobytes() for array in served.arrays[1:])
        return velocity + Saved(tuple(server.journal.steps), tuple(server.came)).encode()

    return Keeper(job.checkpoint, lambda: served.held[0], more, len(server.journal.entries))


def _scale(job: WorkerJob, plan: Fabric) -> float:
    """Return the factor between the norm of a gradient and that of the change of the weights: in training a gradient
    counts 1/N and is multiplied by the learning rate, and in other tasks it is added. 0 where nobody needs norms."""
    if plan.replica is None:
        return 0.0
    learning_rate = getattr(job.training, "learning_rate", None)
    return 1.0 if learning_rate is None else float(learning_rate) / job.world


@dataclass(frozen=True)
class _Served:
    """Weights and the function that changes them, and the ``arrays`` that it changes: weights, and velocity with
    momentum."""

    held: tuple[Floats, Apply]
    arrays: tuple[Floats, ...]


def _served(job: WorkerJob, momentum: float, span: Span) -> _Served:
    """Make a span of the weights, and the function that changes them."""
    weights, apply = tasks.served(job, span)

    def change(floats: Floats, is_sum: bool, count: int) -> None:
        if is_sum and momentum:
            assert isinstance(apply, tasks.Together)  # a task with momentum
            for_weights, for_velocity = np.split(floats, 2)
            apply.together((for_weights, for_velocity), history(momentum, count))
        else:
            apply(floats)

    if momentum:
        assert isinstance(apply, tasks.Together)
        return _Served((weights, change), (weights, apply.velocity))
    return _Served((weights, change), (weights,))
