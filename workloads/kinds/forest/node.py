"""A process of a synchronous scheme: our engine, between its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.workloads.job import WorkerJob
from testbed.workloads.sync import chunks, transport
from testbed.workloads.sync.compiled import Classes, engine
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.steps import Jitter
from testbed.workloads.sync.sums import UNSENT_BYTES

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


def join(
    job: WorkerJob,
    forest: Forest,
    part: Participant | None,
    called_off: Callable[[], None],
    classes: Classes | None = None,
) -> Engine:
    """Meet the neighbours; ``called_off`` is as in :func:`testbed.workloads.sync.transport.connect_all`, and
    ``classes`` as in :func:`testbed.workloads.sync.compiled.engine`.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    table = chunks.cut(forest, job.buckets[-1][1], job.buckets, job.chunk_bytes)
    late_s = job.timeout_s if job.failover and job.failover.generation else job.start_timeout_s
    sockets = transport.connect_all(job.node, job.peers, forest.nodes, job.congestion_control, late_s, called_off)
    steps = job.jitter
    jitter = Jitter(forest, job.node, steps.sigma_s, steps.seed) if steps else None
    gradient = None if part is None else part.gradient
    if forest.fixed and gradient is not None:
        transport.limit_unsent(sockets, UNSENT_BYTES)
    return engine(job.node, forest, table, sockets, gradient, priority=job.priority, jitter=jitter, classes=classes)
