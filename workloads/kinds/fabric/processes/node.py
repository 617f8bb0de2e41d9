"""Start of the processes of a trial that MLfabric schedules: each gets its connections and its data."""

from __future__ import annotations

from collections.abc import Callable
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
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.replica import Replica
from testbed.workloads.kinds.fabric.processes.returned import Returned, Saved
from testbed.workloads.kinds.fabric.processes.scheduler import Scheduler, goodput_of
from testbed.workloads.kinds.fabric.processes.server import Served, Server, Survival
from testbed.workloads.kinds.fabric.processes.worker import Client
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
        TrialTimeoutError, WorkerError: one of them did not come, or a server's last checkpoint is none.
        PrivilegeError: the kernel refuses the congestion control.
    """
    floats, address = job.buckets[-1][1], shared.place(job.forest, job.node)
    if part is not None:
        memory = shared.Memory.make(floats)
        sock = shared.reach_daemon(address, memory, job.start_timeout_s)
        client = SumsClient if makes_sums else Client
        return client(plan, job.node, sock, memory, part, _scale(job, plan))
    momentum = 0.0 if makes_sums else float(getattr(job.training, "momentum", 0.0))  # some tasks have none
    if job.node in plan.workers:
        worker, memory = shared.await_worker(address, floats, job.start_timeout_s)
    updates = job.training.iterations * job.world
    survival = None if job.loss_s is None else Survival(job.loss_s, updates)
    if job.restarts:
        sockets = transport.await_all(job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
        served = _served(job, plan, momentum, (0, floats))
        returned = Returned(plan, job.node, sockets, served, survival)
        assert job.checkpoint is not None
        arrays, more = checkpoint.read(Path(job.checkpoint.path), floats, len(served.arrays))
        for array, saved in zip(served.arrays, arrays, strict=True):
            np.copyto(array, saved)
        returned.resume(Saved.decode(more), job.restarts)
        returned.keeper = _keeper(job, served, returned)
        return returned
    sockets = transport.connect(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
    seek = Seek(partial(_dial, job, plan), Path(job.fenced)) if job.fenced else None
    if job.node in plan.roots:
        return RootDaemon(plan, job.node, sockets, worker, memory)
    if job.node in plan.workers:
        return Daemon(plan, job.node, sockets, worker, memory, momentum, job.loss_s, seek)
    if job.node in plan.servers and makes_sums:
        return SumsServer(plan, job.node, sockets, floats)
    if job.node in plan.servers:
        served = _served(job, plan, momentum, spans(floats, len(plan.servers))[plan.servers.index(job.node)])
        server = Server(plan, job.node, sockets, served, survival)
        server.keeper = _keeper(job, served, server)
        return server
    if job.node == plan.replica:
        return Replica(plan, job.node, sockets, _served(job, plan, momentum, (0, floats)), survival)
    seed = job.training.seed
    share = goodput_of(sockets[plan.server])
    told = Follower(Path(job.forest).parent / NAME, 2 * len(plan.links))
    work = Work(4 * floats, updates, momentum, seed, share, _learning_rate(job))
    return Scheduler(plan, sockets, work, told, job.loss_s, seek)


def _dial(job: WorkerJob, plan: Fabric, meanwhile: Callable[[], None]) -> socket:
    """Find a server that is started again; ``meanwhile`` is called again and again. Raises TrialTimeoutError: it does
    not come."""
    (peer,) = [one for one in job.peers if one.node == plan.server]
    return transport.reach(job.node, peer, plan.nodes, job.congestion_control, job.start_timeout_s, meanwhile)


def _keeper(job: WorkerJob, served: Served, server: Server) -> Keeper:
    """Make the writer of a server's checkpoints; if the server may be started again, they have all that a start
    needs."""
    weights, *others = served.arrays
    if job.checkpoint is None or not job.checkpoint.resumes:
        return Keeper(job.checkpoint, lambda: weights)

    def more() -> bytes:
        velocity = b"".join(array.tobytes() for array in others)
        return velocity + Saved(tuple(server.journal.steps), tuple(server.came)).encode()

    return Keeper(job.checkpoint, lambda: weights, more, len(server.journal.entries))


def _scale(job: WorkerJob, plan: Fabric) -> float:
    """Return the factor between the norm of a gradient and that of the change of the weights: in training a gradient
    counts 1/N and is multiplied by the learning rate, and in other tasks it is added. 0 where nobody needs norms."""
    if plan.replica is None:
        return 0.0
    learning_rate = getattr(job.training, "learning_rate", None)
    return 1.0 if learning_rate is None else float(learning_rate) / job.world


def _served(job: WorkerJob, plan: Fabric, momentum: float, span: Span) -> Served:
    """Make a span of the weights, and the function that changes them."""
    weights, apply = tasks.served(job, span)

    def change(floats: Floats, is_sum: bool, count: int) -> None:
        if is_sum and momentum:
            assert isinstance(apply, tasks.Together)  # a task with momentum
            for_weights, for_velocity = np.split(floats, 2)
            apply.together((for_weights, for_velocity), history(momentum, count))
        else:
            apply(floats)

    arrays: tuple[Floats, ...] = (weights,)
    if momentum:
        assert isinstance(apply, tasks.Together)
        arrays = weights, apply.velocity
    return Served(arrays, change, plan.options.rates(_learning_rate(job)), momentum)


def _learning_rate(job: WorkerJob) -> float:
    return float(getattr(job.training, "learning_rate", 1.0))
