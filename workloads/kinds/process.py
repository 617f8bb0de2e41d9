"""Processes of a trial: the node of each, its parts in jobs, and the processes with which it is connected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from testbed.base.errors import SpecError
from testbed.base.process_names import of_job
from testbed.workloads.plan import Plan

WORKER = "worker"
"""Role of a process that contributes gradients."""


@dataclass(frozen=True)
class JobPart:
    """Part of a process in one job. Its job file, its samples and its peers are those of that job.

    Attributes:
        name: unique in the trial. It is the name of the process, unless that may have parts in several jobs.
        role: what it is for, in a word.
        rank: among the job's workers; None for another role.
        job: the job's name; empty of one that has none.
    """

    name: str
    role: str
    rank: int | None = None
    job: str = ""


@dataclass(frozen=True)
class Process:
    """A process. It trains for one job, or serves one or several.

    Attributes:
        name: as the kind names it in its job (:mod:`testbed.base.process_names`); in a trial, unique there.
        node: the node that it runs on.
        parts: what it does, at least one.
        meets: names of the processes of other nodes with which it has connections, in the order in which it gets them.
        is_shared: whether all jobs that name it have it together. Otherwise each job has its own.
        connection: number of the only one that it uses of the connections between its node and another
            (:meth:`.Topology.connections`); None for all.
    """

    name: str
    node: int
    parts: tuple[JobPart, ...]
    meets: tuple[str, ...] = ()
    is_shared: bool = False
    connection: int | None = None

    def on_service(self, nodes: Collection[int]) -> Process:
        """Return the process, which all jobs have together if it runs on one of a service's ``nodes``."""
        return replace(self, is_shared=True) if self.node in nodes else self

    def of_job(self, job: str) -> Process:
        """Return the process as its trial names it, with its part in this job; ``meets`` are names in the job still."""
        parts = tuple(replace(part, name=of_job(job, part.name), job=job) for part in self.parts)
        return replace(self, name=self.name if self.is_shared else of_job(job, self.name), parts=parts)


def one_each(plan: Plan, pairs: Collection[tuple[int, int]], roles: Mapping[int, str] | None = None) -> list[Process]:
    """Make one process for each node that works or is in a pair (sender, receiver), connected as these are: workers by
    rank, then the others. Others aggregate unless ``roles`` has another role for their node."""
    met: dict[int, set[int]] = {node: set() for node in plan.workers}
    for source, target in pairs:
        met.setdefault(source, set()).add(target)
        met.setdefault(target, set()).add(source)
    others = {**dict.fromkeys(sorted(met.keys() - {*plan.workers}), "aggregator"), **(roles or {})}
    alone = [*workers(plan), *(process(plan.nodes[node], node, role) for node, role in others.items())]
    return [replace(each, meets=tuple(plan.nodes[other] for other in sorted(met[each.node]))) for each in alone]


def workers(plan: Plan) -> list[Process]:
    """Make the workers of a plan, by rank, without connections."""
    return [process(plan.nodes[node], node, WORKER, rank) for rank, node in enumerate(plan.workers)]


def process(name: str, node: int, role: str, rank: int | None = None, meets: Iterable[str] = ()) -> Process:
    """Make a process with one part."""
    return Process(name, node, (JobPart(name, role, rank),), tuple(meets))


def named(processes: Iterable[Process], job: str) -> dict[str, Process]:
    """Return a job's processes as its trial names them, by the names of their parts."""
    known = {process.name: process.of_job(job) for process in processes}
    return {
        process.parts[0].name: replace(process, meets=tuple(known[other].name for other in process.meets))
        for process in known.values()
    }


def merged(jobs: Iterable[Mapping[str, Process]]) -> dict[str, Process]:
    """Return the processes of all jobs by name, each with its parts in all of them.

    Raises:
        SpecError: jobs put a process that they share on different nodes.
    """
    known: dict[str, Process] = {}
    for own in jobs:
        for process in own.values():
            before = known.setdefault(process.name, process)
            if before.node != process.node:
                names = " and ".join(part.job for part in (*before.parts, *process.parts))
                raise SpecError(
                    f"the jobs {names} share the process {process.name}, and put it on different nodes",
                    fix="give them the same place for it",
                )
            if before is not process:
                both = before.parts + process.parts, before.meets + process.meets
                known[process.name] = replace(before, parts=both[0], meets=both[1])
    return known
