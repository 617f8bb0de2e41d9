"""Gloo, through ``torch.distributed``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.rendezvous import rendezvous

from testbed.base.errors import WorkerError
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.library.common import LibrarySession, bucket_spans, interface_of
from testbed.workloads.kinds.library.plan import Library
from testbed.workloads.sync.chunks import ChunkTable


class Gloo(LibrarySession):
    """A rank of a process group (see :class:`testbed.workloads.sync.session.Session`). Gloo works in threads of its
    own, so buckets are on their way while the backward pass goes on."""

    def __init__(self, job: WorkerJob, library: Library, table: ChunkTable, gradient: NDArray[np.float32]) -> None:
        """
        Raises:
            WorkerError: the ranks do not meet within the start timeout.
        """
        assert job.meeting is not None
        assert job.rank is not None
        self._name = job.name
        self._algorithm = library.algorithm
        self._buckets = [torch.from_numpy(span) for span in bucket_spans(table, gradient)]
        self._under_way: list[dist.Work] = []
        os.environ["GLOO_SOCKET_IFNAME"] = interface_of(job.meeting.local)
        place = f"tcp://{job.meeting.first}:{job.meeting.port}"
        self._timeout_s = job.timeout_s
        start = timedelta(seconds=job.start_timeout_s)
        with self._named("start_timeout"):
            store, rank, world = next(rendezvous(place, job.rank, job.world, timeout=start))
            store.set(f"rank {rank} is here", "")
            store.wait([f"rank {other} is here" for other in range(world)], start)
            # This limit holds while ranks connect, and each wait has its own.
            longest = max(start, timedelta(seconds=job.timeout_s))
            dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=longest)

    @contextmanager
    def _named(self, option: str = "timeout") -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # also torch's own DistError
            raise WorkerError(
                f"{self._name}: Gloo failed: {str(error).splitlines()[0]}",
                fix=f"see why the other ranks stopped, or raise {option}",
            ) from error

    def start(self, bucket: int) -> None:
        tensor = self._buckets[bucket]
        with self._named():
            if self._algorithm == "allreduce":
                self._begun(dist.all_reduce(tensor, async_op=True))
            else:
                self._begun(dist.reduce(tensor, 0, async_op=True))
                self._finish(self._timeout_s)  # rank 0 must have the sum before it sends it
                self._begun(dist.broadcast(tensor, 0, async_op=True))

    def _begun(self, work: dist.Work | None) -> None:
        assert work is not None  # only a rank outside of the group gets None
        self._under_way.append(work)

    def _finish(self, timeout_s: float) -> None:
        for work in self._under_way:
            work.wait(timedelta(seconds=timeout_s))
        self._under_way.clear()

    def poll(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def wait(self, timeout_s: float) -> float:
        with self._named():
            self._finish(timeout_s)
        return time.monotonic()

    def barrier(self, timeout_s: float) -> None:
        with self._named():
            self._begun(dist.barrier(async_op=True))
            self._finish(timeout_s)

    def __enter__(self) -> Gloo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            dist.destroy_process_group()
