"""Sums of a forest whose trees are each among some of the workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from testbed.workloads.kinds.parts import Groups
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.parts import Span


class ForestGroups(Groups[Forest]):
    """Members of a plan's classes."""

    def summed(self, plan: Forest, job: WorkerJob) -> Sequence[tuple[Span, Collection[int]]]:
        from testbed.workloads.sync.groups import summed

        if plan.members is None:
            return ()
        return summed(plan, cut(plan, job.buckets[-1][1], job.buckets, job.chunk_bytes))
