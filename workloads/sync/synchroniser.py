"""What a worker asks of whoever synchronises: our engine, a library, or an asynchronous parameter server."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from workloads.job import Job
from workloads.sync import libraries, transport
from workloads.sync.chunks import ChunkTable
from workloads.sync.engine import Engine, Floats
from workloads.sync.forest import Forest
from workloads.sync.reception import Look
from workloads.sync.steps import Jitter
from workloads.sync.tcp_info import Sent


class Synchroniser(Protocol):
    """Sums the gradient over all workers, in place; see :class:`workloads.sync.engine.Engine` for each method."""

    @property
    def congestion_control(self) -> str:
        """The TCP congestion control in use."""

    @property
    def wire_bytes(self) -> int | None:
        """Bytes handed to TCP so far; None where a library does not say."""

    @property
    def sent(self) -> dict[int, Sent] | None:
        """What the kernel has put on the wire so far, by neighbour; None where a library does not say."""

    def start(self, bucket: int) -> None: ...
    def poll(self, timeout_s: float) -> None: ...
    def wait(self, timeout_s: float) -> float: ...
    def barrier(self, timeout_s: float) -> None: ...
    def __enter__(self) -> Synchroniser: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def connect(
    job: Job, forest: Forest, table: ChunkTable, gradient: Floats | None, called_off: Look = lambda: None
) -> Synchroniser:
    """Meet the other processes of the trial; ``called_off`` is as in :func:`workloads.sync.transport.connect`.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    if forest.library is not None and gradient is not None:
        return libraries.connect(job, forest.library, table, gradient)
    late_s = job.timeout_s if job.failover and job.failover.generation else job.start_timeout_s
    sockets = transport.connect(job.node, job.peers, forest.nodes, job.congestion_control, late_s, called_off)
    steps = job.jitter
    jitter = Jitter(forest, job.node, steps.sigma_s, steps.seed) if steps else None
    return Engine(job.node, forest, table, sockets, gradient, priority=job.priority, jitter=jitter)
