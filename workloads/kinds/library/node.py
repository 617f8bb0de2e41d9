"""A rank of a library's group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.library.plan import library_of
from testbed.workloads.sync import chunks
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.session import Session

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


def join(job: WorkerJob, forest: Forest, part: Participant) -> Session:
    """Join the library's group of ranks; the imports are here, for a process needs one of them.

    Raises:
        TrialTimeoutError, WorkerError: the ranks do not meet.
    """
    library = library_of(forest)
    table = chunks.cut(forest, job.buckets[-1][1], job.buckets, job.chunk_bytes)
    if library.name == "gloo":
        from testbed.workloads.kinds.library.gloo import Gloo

        return Gloo(job, library, table, part.gradient)
    from testbed.workloads.kinds.library.openmpi import OpenMpi

    return OpenMpi(job, library, table, part.gradient)
