"""Open MPI, through mpi4py.

Problem: an MPI rank is a child of Open MPI's daemon, ``orted``, which gives it its place in the job through environment
variables. Our workers are forked from a process that has imported PyTorch, which saves each of them seconds and
hundreds of megabytes, and are watched by the lab.

Chosen: rank 0's worker starts ``mpirun``, whose launch agent takes ``orted`` to each host. What ``orted`` starts there
is ``handover.py``: it sends its environment to the worker on the same host over a unix socket, and ends when the worker
does. With that environment the worker is the rank. Open MPI itself is unchanged.

Rejected: workers started by ``orted``. Each would import PyTorch while the others do, and the lab would know neither
when one ends nor how.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import mpi4py
import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.workloads.job import Meeting, WorkerJob
from testbed.workloads.kinds.library.common import LibrarySession, bucket_spans, interface_of
from testbed.workloads.kinds.library.handover import MEETING_PLACE
from testbed.workloads.kinds.library.plan import Library
from testbed.workloads.sync.chunks import ChunkTable

HANDOVER = Path(__file__).with_name("handover.py")
_RETRY_S = 0.1
_END_S = 20.0
"""Longest time (s) that mpirun may take to end after the last rank has."""


class OpenMpi(LibrarySession):
    """A rank of MPI_COMM_WORLD (see :class:`testbed.workloads.sync.session.Session`). ``MPI_Allreduce`` blocks, so
    :meth:`start` returns when the bucket's sum is there. Nothing limits how long it waits for a rank that hangs; the
    harness notices that nothing is written."""

    def __init__(self, job: WorkerJob, library: Library, table: ChunkTable, gradient: NDArray[np.float32]) -> None:
        """
        Raises:
            TrialTimeoutError: mpirun has not come to this host within the timeout.
            WorkerError: mpirun ended, or MPI cannot be initialised.
        """
        assert job.meeting is not None
        assert job.rank is not None
        self._name = job.name
        self._buckets = bucket_spans(table, gradient)
        self._complete_s = 0.0
        self._mpirun: subprocess.Popen[bytes] | None = None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(MEETING_PLACE.format(rank=job.rank))
            listener.listen(1)
            if job.rank == 0:
                folder = Path(job.samples).parent
                command = mpirun(job.meeting, library, interface_of(job.meeting.local), job.start_timeout_s)
                self._mpirun = subprocess.Popen(command, cwd=folder, env={**os.environ, "TMPDIR": str(folder)})
            self._stand_in = self._met(listener, job.start_timeout_s)
        os.environ.update(self._handed_over())
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI  # only now: it reads the environment

        self._mpi = MPI
        with self._named():
            MPI.Init_thread(MPI.THREAD_FUNNELED)

    def _met(self, listener: socket.socket, timeout_s: float) -> socket.socket:
        """Accept the connection from the program that mpirun has started on this host."""
        listener.settimeout(_RETRY_S)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                stand_in, _ = listener.accept()
                return stand_in
            except TimeoutError:
                if self._mpirun and self._mpirun.poll() is not None:
                    raise WorkerError(
                        f"mpirun ended with exit status {self._mpirun.returncode} before it had started the ranks",
                        fix="see what it says above",
                    ) from None
        raise TrialTimeoutError(
            f"mpirun has not come to {self._name} within {timeout_s:g} s",
            fix="see the log of the worker with rank 0, which has started it",
        )

    def _handed_over(self) -> dict[str, str]:
        """Read the environment that ``orted`` has for the rank on this host: JSON on one line."""
        line = self._stand_in.makefile("rb").readline()
        if not line:
            raise WorkerError(f"what mpirun has started on {self._name} ended", fix="see the log of rank 0")
        environment: dict[str, str] = json.loads(line)
        return environment

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._mpi.Exception as error:
            raise WorkerError(
                f"{self._name}: Open MPI failed: {error.Get_error_string()}", fix="see why the other ranks stopped"
            ) from error

    def start(self, bucket: int) -> None:
        with self._named():
            self._mpi.COMM_WORLD.Allreduce(self._mpi.IN_PLACE, self._buckets[bucket])
        self._complete_s = time.monotonic()

    def poll(self, timeout_s: float) -> None:
        time.sleep(timeout_s)

    def wait(self, timeout_s: float) -> float:
        return self._complete_s

    def barrier(self, timeout_s: float) -> None:
        with self._named():
            self._mpi.COMM_WORLD.Barrier()

    def __enter__(self) -> OpenMpi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave MPI, which waits for the other ranks; after an error the process just ends, and mpirun the others."""
        if kind is not None:
            return
        with self._named():
            self._mpi.Finalize()
        self._stand_in.close()
        if self._mpirun and self._mpirun.wait(_END_S):
            raise WorkerError(
                f"mpirun ended with exit status {self._mpirun.returncode}", fix="see what it says in this worker's log"
            )


def mpirun(meeting: Meeting, library: Library, interface: str, timeout_s: float) -> list[str]:
    """Return the command: a rank a host, in order, over TCP through one interface, in the algorithm that was asked for.

    Ranks yield their core where they find nothing to do, as Open MPI does by itself where it knows of more ranks than
    cores; it cannot know that its hosts share theirs.
    """
    parameters = {
        "plm": "rsh",
        "plm_rsh_agent": meeting.agent,
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": interface,
        "pml": "ob1",
        "btl": "tcp,self",
        "btl_tcp_if_include": interface,
        "mpi_yield_when_idle": "1",
    }
    if library.algorithm != "default":
        parameters |= {
            "coll_tuned_use_dynamic_rules": "1",
            "coll_tuned_allreduce_algorithm": library.algorithm,
            "coll_tuned_allreduce_algorithm_segmentsize": str(library.segment_bytes),
        }
    mca = [word for name, value in parameters.items() for word in ("--mca", name, value)]
    hosts = ",".join(f"{name}:1" for name in meeting.hosts)
    place = ["--allow-run-as-root", "--bind-to", "none", "--host", hosts, "-np", str(len(meeting.hosts))]
    return ["mpirun", *place, *mca, sys.executable, "-P", "-S", str(HANDOVER), str(timeout_s)]
