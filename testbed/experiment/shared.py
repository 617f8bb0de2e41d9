"""Jobs that share a network: which hosts each gets, and when.

All of it is decided before anything is built, so that every plan is verified, every repeat is the same, and ``plan``
shows it. A job with a number of hosts takes the first ones by index that are free. If there are too few, it waits:
its hosts are those that are free first if every job takes as long as predicted (TopoOpt, section 3.1). While the trial
runs, it begins when the jobs that had these hosts have ended, however long they took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from testbed.base.errors import SpecError
from testbed.base.listing import counted, shortened
from testbed.experiment.duration import job_s
from testbed.spec.jobs import SERVICE, JobKeys, singly
from testbed.topologies.circuits import matchings
from testbed.topologies.model import Topology
from testbed.topologies.part import Part, passed
from testbed.topologies.patch_panel import repatched
from testbed.trial.job import Job, Slot

Make = Callable[[JobKeys, Part], Job]
"""Plans a job on these hosts."""


@dataclass(frozen=True)
class Service:
    """The service of an arm.

    Attributes:
        text: the scheme, as the spec has it.
        called: what a host of it is called.
        hosts: its hosts, which no job has for itself.
    """

    text: str
    called: str
    hosts: tuple[int, ...]

    def check_apart(self, job: JobKeys, topology: Topology) -> None:
        """
        Raises:
            SpecError: the job names one of its hosts.
        """
        names = [topology.nodes[host].name for host in self.hosts]
        for name in job.hosts if isinstance(job.hosts, list) else ():
            if name in names:
                article = "a" if len(names) > 1 else "the"
                raise SpecError(
                    f"the job {job.name} names {name}, which is {article} {self.called} of service {self.text}",
                    fix="name other hosts, or give their number",
                )


def planned(
    asked: Sequence[JobKeys], topology: Topology, make: Make, service: Service | None = None
) -> tuple[Job, ...]:
    """The jobs of an arm, in the order in which they are submitted.

    Raises:
        SpecError: one names a host that there is not, or that belongs to the service, or is larger than the network; or
            jobs get into each other's way.
    """
    queue, found = _Queue(asked, topology, service), []
    for one in singly(asked):
        if service:
            service.check_apart(one, topology)
        try:
            slot = queue.next(one)
            topology = _patched(topology, slot)
            job = replace(make(one, Part(topology, (*slot.hosts, *(slot.served_by or ())))), slot=slot)
        except SpecError as error:
            raise SpecError(f"the job {one.name}: {error.problem}", fix=error.fix) from None
        queue.holds(job)
        found.append(job)
    _check_apart(found)
    return tuple(found)


def _patched(topology: Topology, slot: Slot) -> Topology:
    """The network once a job has its circuits."""
    if slot.circuits is None:
        return topology
    assert topology.panels is not None
    return repatched(topology, topology.panels.among(slot.hosts, slot.circuits))


class _Queue:
    """Hosts that are taken until when, and by which job, if every job takes as long as predicted."""

    def __init__(self, asked: Sequence[JobKeys], topology: Topology, service: Service | None) -> None:
        self._topology, self._service = topology, service
        named = {host for one in asked if isinstance(one.hosts, list) for host in one.hosts}
        named |= {topology.nodes[host].name for host in service.hosts} if service else set()
        self._pool = [host for host in topology.hosts if topology.nodes[host].name not in named]
        self._until_s: dict[int, float] = {}
        self._since_s: dict[int, float] = {}
        self._last: dict[int, str] = {}
        self._first_s = 0.0  # nobody overtakes who waits

    def next(self, one: JobKeys) -> Slot:
        """Return where and when a job runs that was submitted after the others.

        Raises:
            SpecError: it can never run, or its circuits cannot be.
        """
        slot = self._placed(one)
        if self._service and one.scheme == SERVICE:
            slot = replace(slot, scheme=self._service.text, served_by=self._service.hosts)
        if not one.rings and not one.circuits:
            return slot
        panels = self._topology.panels
        if panels is None:
            problem = f"it has circuits, and {self._topology.expression} has no patch panels"
            raise SpecError(problem, fix="remove rings and circuits, or take patch_panel(...)")
        found = matchings(len(slot.hosts), panels.degree, one.rings, one.circuits)
        circuits = tuple(
            tuple(sorted((min(pair), max(pair)) for pair in ((slot.hosts[a], slot.hosts[b]) for a, b in panel)))
            for panel in found
        )
        # Ports that look ahead are free once the job before has turned away from them.
        since_s = max((self._since_s.get(host, 0.0) for host in slot.hosts), default=0.0)
        patched_s = (since_s if panels.looks_ahead else slot.planned_s) + panels.reconfiguration_s
        return replace(slot, planned_s=max(slot.planned_s, patched_s), circuits=circuits)

    def _placed(self, one: JobKeys) -> Slot:
        """
        Raises:
            SpecError: it can never run.
        """
        if isinstance(one.hosts, list):
            return Slot(one.scheme, tuple(map(self._named, one.hosts)), one.start_s, one.start_s)
        if one.hosts > len(self._pool):
            served = len(self._service.hosts) if self._service else 0
            named = self._topology.host_count - len(self._pool) - served
            taken = [f"service {self._service.text} has {served}"] if self._service else []
            taken += [f"jobs name {named}"] if named else []
            others = f", of which {' and '.join(taken)}" if taken else ""
            raise SpecError(
                f"it needs {counted(one.hosts, 'host')}, and {self._topology.expression} has "
                f"{self._topology.host_count}{others}",
                fix=f"give at most {len(self._pool)}, or take a larger network",
            )
        earliest_s = max(one.start_s, self._first_s)
        moments_s = [earliest_s, *sorted(until_s for until_s in self._until_s.values() if until_s > earliest_s)]
        at_s, free = next(
            (at_s, free)
            for at_s in moments_s
            if len(free := [host for host in self._pool if self._until_s.get(host, 0.0) <= at_s]) >= one.hosts
        )  # when the last has ended, all are free
        self._first_s = at_s
        hosts = tuple(free[: one.hosts])
        after = tuple(dict.fromkeys(self._last[host] for host in hosts if host in self._last))
        return Slot(one.scheme, hosts, one.start_s, at_s, after)

    def holds(self, job: Job) -> None:
        """A job has its hosts for as long as it runs."""
        for host in job.own_slot.hosts:
            self._until_s[host], self._last[host] = job.planned_s + job_s(job), job.name
            self._since_s[host] = job.planned_s

    def _named(self, name: str) -> int:
        index = self._topology.index.get(name)
        if index is None or index not in self._topology.hosts:
            known = [self._topology.nodes[host].name for host in self._topology.hosts]
            problem = f"{self._topology.expression} has no host {name!r}"
            raise SpecError(problem, fix=f"name some of {shortened(known, 8)}")
        return index


def _check_apart(jobs: Sequence[Job]) -> None:
    """
    Raises:
        SpecError: on patch panels, one job's packets pass another's hosts; two jobs connect the same two switches,
            whose connections could not be told apart; or jobs that share a process do not begin together.
    """
    pairs = {job.name: set(job.kind.pairs(job.plan)) for job in jobs}
    names = {job.name: {process.name for process in job.members.values()} for job in jobs}
    for one, other in combinations(jobs, 2):
        both = pairs[one.name] & pairs[other.name]
        if both and set(one.own_slot.hosts).isdisjoint(other.own_slot.hosts):  # else in turn
            topology, (a, b) = one.network.topology, min(both)
            is_served = {a, b} <= {*(one.own_slot.served_by or ())}
            raise SpecError(
                f"the jobs {one.name} and {other.name} both need a connection between {topology.nodes[a].name} and "
                f"{topology.nodes[b].name}, and their messages could not be told apart",
                fix="take a service of one box" if is_served else "let only one of the jobs use switches that add",
            )
        shared = names[one.name] & names[other.name]
        if shared and one.planned_s != other.planned_s:
            raise SpecError(
                f"the jobs {one.name} and {other.name} share the process {min(shared)}, but do not begin at the same "
                "time",
                fix="remove start and after from both jobs, or give both the same start",
            )
    for job in jobs:
        topology = job.network.topology
        if topology.panels is None:
            continue
        foreign = passed(topology, sorted(pairs[job.name])) - set(job.own_slot.hosts)
        if foreign:
            raise SpecError(
                f"the job {job.name}: its packets pass {topology.nodes[min(foreign)].name}, and on patch panels they "
                "must stay on the job's own hosts",
                fix="give circuits that join the hosts of each job, or other hosts",
            )
