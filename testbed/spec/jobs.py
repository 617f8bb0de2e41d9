"""The keys of a job, where an arm has several on one network, and strategies of jobs and arms: which hosts hold each
operator of a model (:mod:`testbed.workloads.parallel.strategy`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Time, Whole, refuse
from testbed.base.limits import MOST_JOBS
from testbed.perturb.circuit_values import Tuples
from testbed.spec.text import Name, SchemeText, nothing
from testbed.spec.workload.base import Batch

EXAMPLE = "host numbers by operator: {e0: [0], rest: all}"
GivenStrategy = str | dict[str, str | list[int]]


def _strategy(value: object) -> object:
    """Check a strategy as far as that is possible without knowing the model and the hosts."""
    example = f"write data, search(steps=2000), or {EXAMPLE}"
    if value == "data":
        return value
    if not isinstance(value, dict) or not value:
        raise refuse(f"{value!r} is not a strategy", example)
    for name, holders in value.items():
        if holders != "all" and not (isinstance(holders, list) and all(type(one) is int for one in holders)):
            raise refuse(f"{name}: {holders!r} is not a list of host numbers", f"write {name}: [0], or {name}: all")
    return {str(name): holders for name, holders in value.items()}


def _of_job(value: object) -> object:
    """Refuse a search for a job's strategy, for its hosts depend on the others."""
    if isinstance(value, str) and value.startswith("search"):
        raise refuse(
            "a job has no search for a strategy", f"write the one that testbed find prints: data, or {EXAMPLE}"
        )
    return value


Strategy = Annotated[GivenStrategy, BeforeValidator(_strategy)]
JobStrategy = Annotated[GivenStrategy, BeforeValidator(_strategy), BeforeValidator(_of_job)]
"""Strategy of one of several jobs."""


def strategy_text(strategy: GivenStrategy | None) -> str:
    """Write a strategy for people; empty where there is none."""
    if strategy is None or isinstance(strategy, str):
        return strategy or ""
    given = [f"{name}: {holders}" for name, holders in strategy.items()]
    return "{" + ", ".join(given[:4] + [f"and {len(given) - 4} more"] * (len(given) > 4)) + "}"


SERVICE = "service"
"""Scheme of a job that uses its arm's service."""


def counted_or_named(value: object) -> object:
    """Check a number of hosts, or names of hosts."""
    if isinstance(value, list):
        names = [one for one in value if isinstance(one, str)]
        if len(names) == len(value) and value:
            twice = next((one for one in names if names.count(one) > 1), None)
            if twice is not None:
                raise refuse(f"{twice} is named twice", "name each host of a job once")
            return names
    elif type(value) is int:
        if value < 1:
            raise refuse(f"{value} hosts are impossible", "give at least 2, or names: hosts: [h0, h3]")
        return value
    problem = f"{value!r:.60} is neither a number of hosts nor a list of names"
    raise refuse(problem, "write hosts: 4, or hosts: [h0, h3]")


class JobKeys(Group):
    """One of several jobs that share an arm's network. Each has hosts of its own."""

    name: Name = Field(examples=["a"])
    """The job's name. Each job of an arm has its own."""
    scheme: SchemeText = Field(examples=["ring"])
    """The scheme that synchronises the job's gradients; ``service`` for the service of the arm."""
    hosts: Annotated[int | list[str], BeforeValidator(counted_or_named)] = Field(examples=["4"])
    """The job's hosts by name, which are its ranks in that order: ``[h0, h3]``. Or their number: the job takes the
    first ones by index that no other job has, and waits in a queue until there are enough. A number leaves out hosts
    that another job names."""
    model: str | None = Field(None, examples=["alexnet"])
    """The model whose gradient is synchronised, in place of ``workload.model``."""
    batch: Batch | None = Field(None, examples=["16"])
    """The number of samples per worker and iteration, in place of ``workload.batch``."""
    strategy: JobStrategy | None = Field(None, examples=["{e0: [0], rest: all}"])
    """The job's hosts that hold each operator of its model, by their place among the job's hosts: 0 is the first one.
    As the ``strategy`` of an arm, without a search. By default there is none."""
    rings: Tuples = Field((), examples=["[1, 3]"])
    """On patch panels: the rings that join the job's hosts before it begins, by their places among them, as for the
    topology ``patch_panel``. Circuits that its hosts had before go away. With ``look_ahead=true`` they are patched
    while the jobs before it run, and the hosts' 1x2 switches turn once all are free. By default it takes the circuits
    that are there."""
    circuits: Tuples = Field((), examples=["[[0-1, 2-3]]"])
    """The same as matchings, beside the rings."""
    start_s: Annotated[Time, BeforeValidator(nothing)] = Field(0.0, alias="start", ge=0, examples=["2 s"])
    """When the job is submitted, after the beginning of the trial."""
    copies: Whole = Field(1, ge=1, le=MOST_JOBS, examples=["3"])
    """The number of jobs like this one. They are called ``a-1``, ``a-2`` and so on."""

    def each(self) -> Iterator[JobKeys]:
        """Yield the jobs that its copies are, each with its own name."""
        if self.copies == 1:
            yield self
            return
        for number in range(1, self.copies + 1):
            yield self.model_copy(update={"name": f"{self.name}-{number}", "copies": 1})


def singly(jobs: Sequence[JobKeys]) -> list[JobKeys]:
    """List all jobs, with copies one by one, in the order in which they are submitted; those that are submitted at the
    same time in the order given."""
    return sorted((one for job in jobs for one in job.each()), key=lambda one: one.start_s)


def check(jobs: Sequence[JobKeys], service: str | None) -> None:
    """
    Raises:
        SpecError: two have the same name or host, there are too many, or some use a service and there is none, or none
            does and there is one.
    """
    served = next((job.name for job in jobs if job.scheme == SERVICE), None)
    if served is not None and not service:
        raise SpecError(
            f"the job {served} uses the arm's service, and the arm has none",
            fix="add service: pbox, or give the job a scheme",
        )
    if service and served is None:
        raise SpecError(f"no job uses the service {service}", fix="give jobs scheme: service, or remove service")
    names: set[str] = set()
    holders: dict[str, str] = {}
    count = sum(job.copies for job in jobs)
    if count > MOST_JOBS:
        raise SpecError(f"it has {count} jobs", fix=f"give at most {MOST_JOBS}, copies included")
    for one in singly(jobs):
        if one.name in names:
            raise SpecError(f"two jobs are called {one.name}", fix="give each job a name of its own")
        names.add(one.name)
        for host in one.hosts if isinstance(one.hosts, list) else ():
            if host in holders:
                problem = f"the jobs {holders[host]} and {one.name} both name {host}, and a host has one job at a time"
                fix = "name other hosts; or give numbers of hosts: then a job waits until enough are free"
                raise SpecError(problem, fix=fix)
            holders[host] = one.name
