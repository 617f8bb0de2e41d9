"""What the processes of a trial that MLfabric schedules bring to their exchange."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workloads import tasks
from workloads.job import WorkerJob
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.planning.planner import Work
from workloads.kinds.fabric.processes import shared
from workloads.kinds.fabric.processes.client import Client
from workloads.kinds.fabric.processes.daemon import Daemon
from workloads.kinds.fabric.processes.scheduler import Scheduler, goodput_of
from workloads.kinds.fabric.processes.server import Apply, Server
from workloads.kinds.fabric.sums import history
from workloads.kinds.fabric_sync.processes import SumsClient, SumsServer
from workloads.link_rates import NAME, Follower
from workloads.sync import transport

if TYPE_CHECKING:
    from workloads.kinds.fabric.processes.exchange import Floats
    from workloads.tasks.base import Participant


def join(
    job: WorkerJob, plan: Fabric, part: Participant | None, makes_sums: bool
) -> Client | Daemon | Server | Scheduler:
    """Meet the other processes of the trial; ``makes_sums`` says that the server makes sums and has no weights.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    floats, address = job.buckets[-1][1], shared.place(job.forest, job.node)
    if part is not None:
        assert job.rank is not None
        memory = shared.Memory.make(floats)
        sock = shared.reach_daemon(address, memory, job.start_timeout_s)
        buffers = memory, part.gradient, part.gradient if makes_sums else part.weights
        learn = partial(part.learn, span=(0, floats))
        client = SumsClient if makes_sums else Client
        return client(job.name, job.node, job.rank, job.world, sock, *buffers, learn, dropped=part.dropped)
    momentum = 0.0 if makes_sums else float(getattr(job.training, "momentum", 0.0))  # some tasks have none
    learning_rate = float(getattr(job.training, "learning_rate", 1.0))
    if job.node in plan.workers:
        worker, memory = shared.await_worker(address, floats, job.start_timeout_s)
    sockets = transport.connect(job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s)
    if job.node in plan.workers:
        return Daemon(plan, job.node, sockets, worker, memory, momentum)
    if job.node == plan.server and makes_sums:
        return SumsServer(plan, sockets, floats)
    if job.node == plan.server:
        return Server(plan, sockets, *_served(job, momentum), plan.options.rates(learning_rate))
    updates, seed = job.training.iterations * job.world, job.training.seed
    share = goodput_of(sockets[plan.server])
    rates = Follower(Path(job.forest).parent / NAME, 2 * len(plan.links))
    return Scheduler(plan, sockets, Work(4 * floats, updates, momentum, seed, share, learning_rate), rates)


def _served(job: WorkerJob, momentum: float) -> tuple[Floats, Apply]:
    """The server's weights, and what changes them."""
    weights, apply = tasks.served(job)

    def change(floats: Floats, is_sum: bool, count: int) -> None:
        if is_sum and momentum:
            assert isinstance(apply, tasks.Together)  # a task with momentum
            for_weights, for_velocity = np.split(floats, 2)
            apply.together((for_weights, for_velocity), history(momentum, count))
        else:
            apply(floats)

    return weights, change
