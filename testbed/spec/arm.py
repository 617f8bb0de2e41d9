"""The keys of an arm: its network, its scheme or its jobs, its label and its perturbations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Group, Line, Rate, Size, Speed, Whole, refuse
from testbed.base.units import rate_text
from testbed.spec.jobs import SERVICE, JobKeys, Strategy, check, singly, strategy_text
from testbed.spec.perturb import Perturbations
from testbed.spec.rank_order import RankOrder
from testbed.spec.rank_order import shown as order_shown
from testbed.spec.text import SchemeText, TopologyText


class Checkpoint(Group):
    """Weights that are written to a disk now and then, so that a training could go on from there. A process that writes
    does nothing else meanwhile. Rank 0 writes. If a scheme's servers have the weights, each server writes its part."""

    every: Whole = Field(ge=1, examples=["30"])
    """The number of iterations after which weights are written; of servers, the number of updates. Nothing is written
    after the last one."""
    rate_bytes_per_s: Speed = Field(alias="rate", examples=["180 MB/s"])
    """The speed at which a process writes. A profile's ``scale`` divides it. A slower disk takes longer."""
    spread: Whole | None = Field(None, ge=1, examples=["3"])
    """All workers write, each an equal part, so that each float is written by so many of them. By default one process
    has all of it to write."""

    @property
    def title(self) -> str:
        """Text for an arm without a label."""
        return f"a checkpoint every {self.every}" + ("" if self.spread is None else f", spread {self.spread}")


LONGEST_LABEL = 80
"""The most characters of a label: labels are columns of tables."""


class Arm(Group):
    """One way to synchronise on one network. The experiment compares arms."""

    label: Line = Field("", max_length=LONGEST_LABEL)
    """The arm's name in tables and figures. The default is made from scheme, topology, rate and perturbations."""
    topology: TopologyText = Field(examples=["star(hosts=9)"])
    """The network: a family and its parameters, or a function in a Python file of yours. With a strategy also
    ``topoopt(servers=12,degree=4)``: patch panels and rings are found for it, and the arm has no scheme."""
    scheme: SchemeText = Field("", examples=["ring"])
    """The scheme that synchronises gradients. Every arm needs one, unless it has jobs, the workload is a command, or
    ``topoopt`` finds one."""
    jobs: list[JobKeys] = Field([], examples=["[{name: a, scheme: ring, hosts: 4}, {name: b, scheme: ring, hosts: 4}]"])
    """Several jobs that share the network, in place of ``scheme``. Each has its own scheme, hosts and results."""
    service: SchemeText | None = Field(None, examples=["pbox"])
    """A scheme with hosts that only serve. Jobs with ``scheme: service`` have these hosts, and the processes on them,
    together. No job has one of these hosts for itself. By default there is no service."""
    strategy: Strategy | None = Field(None, examples=["{e0: [0], e1: [1], rest: all}"])
    """The hosts that hold each operator of the workload's model: ``data`` for all of them on all hosts, or hosts by
    operator, with ``rest`` for those that are not named. Hosts send an operator's outputs to those that hold the next
    one, and sum gradients among those that hold the same one. Needs scheme ``ring`` or ``multi_ring``.
    ``search(steps=2000,seed=0)`` looks for the best one. By default there is no strategy, and the scheme sums all
    gradients among all hosts."""
    order: RankOrder | None = Field(None, examples=["[h3, h0, h2, h1]"])
    """The hosts by rank, rank 0 first: by name, each host once, or ``random(3)``, where the number is that of the draw.
    Or it is found in each trial: ``best``, ``worst`` or ``percentile(30)``, by what the scheme's collective costs, or
    ``best(cost=ring,model=linear,bytes=100000000)``. A scheme plans for ranks, so that neighbours in a ring are the
    hosts of neighbouring ranks, and programs have these ranks, too. By default, ranks are in the order of the hosts'
    numbers. Schemes that go by the places of hosts, and those that are alike in every order, take none."""
    rate_bps: Rate | None = Field(None, alias="rate", examples=["800 Mbit/s"])
    """The rate of each host's link in this arm's network, in place of ``links.rate``. A profile's ``scale`` divides it.
    Links that have a rate of their own in ``links`` keep it."""
    memory_bytes: Annotated[Size, Field(gt=0)] | None = Field(
        None, alias="memory", examples=["80 GB"], json_schema_extra={"otherwise": "`40 GB` with a strategy"}
    )
    """The memory of each host, for the weights and the outputs that it holds under a strategy. The model counts in its
    own size, whatever ``scale`` is. A strategy that needs more is refused, and a search does not take it."""
    cut: Annotated[Whole, Field(ge=1)] | None = Field(None, examples=["4"], json_schema_extra={"otherwise": "`1`"})
    """The number of parts into which each embedding table is cut by columns. A strategy places them one by one:
    ``e0.0``, ``e0.1`` and so on. Only a profile's tables can be cut."""
    perturb: Perturbations = Field([], examples=["[C1, N2]"])
    """Perturbations of this arm, in addition to those of the experiment."""
    checkpoint: Checkpoint | None = Field(None, examples=["{every: 30, rate: 180 MB/s}"])
    """Checkpoints of the weights during the training. By default there are none."""

    @property
    def parts(self) -> int:
        """Number of parts of each embedding table."""
        return self.cut or 1

    @property
    def title(self) -> str:
        """The label. Where none is given, it is made from scheme, network, rate, perturbations and checkpoints."""
        rate = "" if self.rate_bps is None else f" at {rate_text(self.rate_bps)}"
        held = "" if self.strategy is None else f" with strategy {self.strategy_text}"
        order = f" in order {self.order_text}" if self.order else ""
        under = f" under {', '.join(one.title for one in self.perturb)}" if self.perturb else ""
        kept = f" with {self.checkpoint.title}" if self.checkpoint else ""
        what = self.scheme or ", ".join(f"{one.name}: {one.scheme}" for one in self.jobs)
        what += f" with service {self.service}" if self.service else ""
        where = f"{what} on {self.topology}" if what else self.topology
        return self.label or where + held + order + rate + under + kept

    @property
    def strategy_text(self) -> str:
        """The strategy for people; empty where there is none."""
        return strategy_text(self.strategy)

    @property
    def order_text(self) -> str:
        """The order of ranks for people; empty where there is none."""
        return order_shown(self.order)

    @property
    def schemes(self) -> list[str]:
        """Schemes of the arm, or of its jobs."""
        jobs = singly(self.jobs)
        return (
            [self.scheme]
            if self.scheme
            else [(self.service or "") if one.scheme == SERVICE else one.scheme for one in jobs]
        )

    @model_validator(mode="after")
    def _of_a_strategy(self) -> Arm:
        strategies = [self.strategy, *(one.strategy for one in self.jobs)]
        if self.memory_bytes is not None and not any(one is not None for one in strategies):
            raise refuse(
                "memory limits a strategy, and this arm has no strategy", "remove memory, or add strategy: data"
            )
        if self.cut is not None and self.strategy is None:
            raise refuse(
                "cut makes parts of tables for a strategy to place, and this arm has no strategy",
                "remove cut, or add a strategy, such as strategy: search(steps=2000)",
            )
        if self.order is not None and self.strategy is not None:
            raise refuse("a strategy places operators on hosts, whatever their ranks are", "remove order, or strategy")
        return self

    @model_validator(mode="after")
    def _jobs_alone(self) -> Arm:
        if self.service and not self.jobs:
            raise refuse(
                f"service {self.service} is for jobs, and this arm has none",
                f"give jobs, each with scheme: service; or write scheme: {self.service} alone, for one training",
            )
        if not self.jobs:
            return self
        if self.scheme:
            raise refuse("an arm has either a scheme or jobs, which have schemes of their own", "remove one of them")
        if self.checkpoint is not None:
            raise refuse("an arm with jobs takes no checkpoint", "remove checkpoint")
        if self.order is not None:
            problem = "an arm with jobs takes no order"
            raise refuse(problem, "name the hosts of each job: their order is that of its ranks")
        if self.strategy is not None:
            raise refuse("an arm with jobs takes no strategy", "give each job a strategy of its own")
        try:
            check(self.jobs, self.service)
        except SpecError as error:
            raise refuse(error.problem, error.fix or "") from None
        return self
