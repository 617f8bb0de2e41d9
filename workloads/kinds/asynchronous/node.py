"""Start of an asynchronous trial's processes: each gets its exchange, a server with its weights, a worker with room for
them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.workloads import tasks
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.asynchronous.parameter_server import Client, Replica, Server
from testbed.workloads.kinds.asynchronous.plan import replicas, servers
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.parts import spans
from testbed.workloads.sync import transport
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


def join(job: WorkerJob, forest: Forest, part: Participant | None) -> Client | Server | Replica:
    """Meet the other processes of the trial.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    sockets = transport.connect(job.node, job.peers, forest.nodes, job.congestion_control, job.start_timeout_s)
    if part is not None:
        return Client(job.name, forest, sockets, part.gradient, part.weights, part.learn)
    holders = servers(forest)
    copied = {copy: server for server, copy in replicas(forest).items()}
    span = spans(job.buckets[-1][1], len(holders))[holders.index(copied.get(job.node, job.node))]
    served = tasks.served(job, span)
    total = job.training.iterations * job.world
    if job.node in copied:
        return Replica(job.name, forest, sockets, served, total)
    server = Server(job.name, forest, sockets, served, total)
    server.keeper = Keeper(job.checkpoint, lambda: served[0])
    return server
