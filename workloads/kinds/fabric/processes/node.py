"""What the processes of a trial that MLfabric schedules bring to their exchange."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workloads import tasks
from workloads.checkpoint import Keeper
from workloads.job import WorkerJob
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.planning.planner import Work
from workloads.kinds.fabric.processes import shared
from workloads.kinds.fabric.processes.client import Client
from workloads.kinds.fabric.processes.daemon import Daemon
from workloads.kinds.fabric.processes.holder import Apply
from workloads.kinds.fabric.processes.replica import Replica
from workloads.kinds.fabric.processes.replicated import Replicated
from workloads.kinds.fabric.processes.scheduler import Scheduler, goodput_of
from workloads.kinds.fabric.processes.server import Server
from workloads.kinds.fabric.processes.survivor import Survival, Survivor
from workloads.kinds.fabric.sums import history
from workloads.kinds.fabric_sync.processes import RootDaemon, SumsClient, SumsServer
from workloads.link_rates import NAME, Follower
from workloads.parts import Span, spans
from workloads.sync import transport

if TYPE_CHECKING:
    from workloads.kinds.fabric.processes.exchange import Floats
    from workloads.tasks.base import Participant


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
    sockets = transport.connect(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
    if job.node in plan.roots:
        return RootDaemon(plan, job.node, sockets, worker, memory)
    if job.node in plan.workers:
        return Daemon(plan, job.node, sockets, worker, memory, momentum, job.loss_s)
    if job.node in plan.servers and makes_sums:
        return SumsServer(plan, job.node, sockets, floats)
    rates = plan.options.rates(learning_rate)
    if job.node in plan.servers:
        held = _served(job, momentum, spans(floats, len(plan.servers))[plan.servers.index(job.node)])
        keeper = Keeper(job.checkpoint, lambda: held[0])
        if job.loss_s is not None and plan.replica is not None:
            return Replicated(job.loss_s, plan, sockets, held, rates, momentum, keeper)
        if job.loss_s is not None:
            return Survivor(Survival(job.loss_s, updates), plan, sockets, held, rates, keeper)
        return Server(plan, job.node, sockets, held, rates, momentum, keeper)
    if job.node == plan.replica:
        return Replica(plan, sockets, _served(job, momentum, (0, floats)), rates, job.loss_s)
    seed = job.training.seed
    share = goodput_of(sockets[plan.server])
    told = Follower(Path(job.forest).parent / NAME, 2 * len(plan.links))
    return Scheduler(plan, sockets, Work(4 * floats, updates, momentum, seed, share, learning_rate), told, job.loss_s)


def _scale(job: WorkerJob, plan: Fabric) -> float:
    """What the norm of a gradient times becomes that of the change of the weights: in training a gradient counts 1/N
    and is multiplied by the learning rate, and in other tasks it is added. 0 where nobody needs norms."""
    if plan.replica is None:
        return 0.0
    learning_rate = getattr(job.training, "learning_rate", None)
    return 1.0 if learning_rate is None else float(learning_rate) / job.world


def _served(job: WorkerJob, momentum: float, span: Span) -> tuple[Floats, Apply]:
    """A span of the weights, and what changes them."""
    weights, apply = tasks.served(job, span)

    def change(floats: Floats, is_sum: bool, count: int) -> None:
        if is_sum and momentum:
            assert isinstance(apply, tasks.Together)  # a task with momentum
            for_weights, for_velocity = np.split(floats, 2)
            apply.together((for_weights, for_velocity), history(momentum, count))
        else:
            apply(floats)

    return weights, change
