"""The interface of a kind of trial, by which the rest of the code need not ask which kind a trial is of.

A kind says what its plans cost and refuse, how a process on a node takes part, and what its samples and bytes mean. All
of it is pure but for :meth:`Kind.join`. The methods here are those of a kind that moves nothing that anyone knows of;
:mod:`testbed.workloads.kinds.forest` has those of synchronous schemes, from which most kinds differ in a few words.
What its callers tell it and are told can be imported from here too: :mod:`.asked` before a trial, :mod:`.evidence`
after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import UsageError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.asked import Asked, Demand, Floats, Refusal, Stage, Tool
from testbed.workloads.kinds.evidence import Expected, Told
from testbed.workloads.kinds.parts import (
    FORMER,
    PARTS,
    Arithmetic,
    Carrier,
    Connections,
    Control,
    Gate,
    Groups,
    Lots,
    ModelParallel,
    OwnChecks,
    OwnSamples,
    P,
    Predictor,
    Program,
    Repair,
    Reports,
    Scripts,
    Sharing,
    Simulation,
    Software,
    Survivor,
    Table,
    Unknown,
    Wording,
    part_that_says,
)
from testbed.workloads.kinds.process import Process, one_each
from testbed.workloads.sync import codec
from testbed.workloads.sync.chunk_size import suiting
from testbed.workloads.sync.cost import Cost, Releases, Shaper
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.forest import Forest, RunBy
from testbed.workloads.sync.verify import check_form

if TYPE_CHECKING:
    import pandas as pd  # not needed to plan a trial

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

__all__ = [
    "AnyKind",
    "Asked",
    "Demand",
    "Expected",
    "Floats",
    "Kind",
    "KindOfForests",
    "Refusal",
    "Stage",
    "Told",
    "Tool",
]


class Kind(Generic[P]):
    """A kind of trial, whose plans are of one type. Its attributes are what it declares.

    Attributes:
        name: its folder, and how records call it.
        run_by: the type of :attr:`Forest.run_by` of its plans; None where that is None.
        sums_together: whether all workers get the sum of an iteration's gradients, so that an iteration has a bound,
            sums can be checked, and bandwidth is defined.
        tools: what some of its trials need to be installed.
        own_samples: what its samples have besides those of all kinds, and what their times mean. This and what follows
            are parts (:mod:`.parts`), which a kind has or has not; the first ten are there, and may have nothing.
        wording: words for its numbers where they mean something else than those of others.
        carrier: whether collectives of a script can go as its plans say.
        unknown: facts about its trials that cannot be told beforehand.
        control: controllers that act on its trials while they run.
        software: programs and packages of others that move its bytes.
        predictor: theory that predicts its times.
        survivor: processes that go on by themselves when others are lost.
        reports: reports of its processes about more than their own iterations.
        arithmetic: arithmetic of its sums, where that is another one than that of floats.
        connections: connections of our engine; None where processes connect as they like.
        model_parallel: what each worker holds of a model that no worker has as a whole.
        gate: what holds its bytes while circuits move.
        program: programs that synchronise by themselves, and tell nothing.
        scripts: ranks of a script, whose collectives go as the plan says.
        lots: chance in its plans.
        sharing: how its jobs share a network with others.
        repair: new plans for those that are left when nodes die.
        groups: sums among some of the workers.
        own_checks: checks of its finished trials.
        table: its transfers, where all are known before a trial.
        simulation: how its trials are played in simulated time.
    """

    name: str
    run_by: type[RunBy] | None = None
    sums_together = True
    tools: Sequence[Tool] = ()

    own_samples: OwnSamples = OwnSamples()
    wording: Wording = Wording()
    carrier: Carrier[P] = Carrier()
    unknown: Unknown[P] = Unknown()
    control: Control = Control()
    software: Software[P] = Software()
    predictor: Predictor[P] = Predictor()
    survivor: Survivor[P] = Survivor()
    reports: Reports[P] = Reports()
    arithmetic: Arithmetic[P] = Arithmetic()
    connections: Connections | None = Connections()
    model_parallel: ModelParallel[P] | None = None
    gate: Gate[P] | None = None
    program: Program[P] | None = None
    scripts: Scripts[P] | None = None
    lots: Lots[P] | None = None
    sharing: Sharing[P] | None = None
    repair: Repair[P] | None = None
    groups: Groups[P] | None = None
    own_checks: OwnChecks[P] | None = None
    table: Table[P] | None = None
    simulation: Simulation[P] = Simulation()

    def __init_subclass__(cls) -> None:
        """
        Raises:
            UsageError: it defines a word of a part, which nobody would ask it for.
        """
        for word in ("neighbours", "role"):
            if word in vars(cls):
                raise UsageError(
                    f"the kind of trial {cls.__name__} defines {word}, and nobody asks a kind for it",
                    fix="let its processes() return each with its role and with the processes that it meets",
                )
        for word in vars(cls):
            part = None if word in OWN or word.startswith("_") else part_that_says(word)
            if part is not None:
                raise UsageError(
                    f"the kind of trial {cls.__name__} defines {word}, and nobody asks a kind for it",
                    fix=f"give it the part {part}, a {PARTS[part].__name__} of testbed.workloads.kinds.parts",
                )

    # What a plan is

    def check_form(self, plan: P, topology: Topology) -> None:
        """Return only if the plan can be shown: it is for this topology, and its parts fit each other.

        Raises:
            SchemeError: it cannot.
        """

    def verify(self, plan: P, topology: Topology) -> None:
        """Return only if the plan, on this topology, does what it is for.

        Raises:
            SchemeError: it does not.
        """

    def refuse(self, plan: P, topology: Topology, asked: Asked) -> None:
        """Return only if what is asked makes sense.

        Raises:
            SpecError: it does not.
        """

    def encode(self, plan: P) -> dict[str, NDArray[Any]]:
        """Encode all that a worker gets to know of a plan, by name; a trial's identity depends on it."""
        raise NotImplementedError

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> P:
        """Rebuild the plan that :meth:`encode` took apart."""
        raise NotImplementedError

    def to_json(self, plan: P) -> dict[str, Any]:
        """Return a plan as JSON, for programs."""
        raise NotImplementedError

    def describe(self, plan: P) -> list[tuple[str, str]]:
        """Describe a plan for people: names and values, besides those that all plans have."""
        return []

    def cannot(self, plan: P) -> Mapping[str, Refusal]:
        """Return the refusal of each effect of perturbations that makes no sense for this plan (``computing``,
        ``steps``, ``circuits``), and of moments that are told by ``iterations``; each says why."""
        return {}

    def keepers(self, plan: P) -> Sequence[int]:
        """Return the nodes that write checkpoints, which together have all weights once; None where no node can."""
        return ()

    # What it costs

    def cost(self, plan: P, topology: Topology, gradient_bytes: float) -> Cost:
        """Compute the cost of one synchronisation.

        Raises:
            TopologyError: two neighbours have no route.
        """
        raise NotImplementedError

    def releases(self, plan: P, topology: Topology, gradient_bytes: float) -> Releases | None:
        """Return which bytes can have left at which time; None where that is not known, or would take too long to work
        out."""
        return None

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        """Return the least job completion time (s); ``pace_s`` is float64[workers, iterations], what computing
        takes."""
        together = np.add if overlap == "none" else np.maximum
        return float(together(pace_s.max(axis=0), cost.bound_s(shaper)).sum())

    def chunk_bytes(self, plan: P, gradient_bytes: float, slowest_bps: float) -> int:
        """Return the size of chunks where none is asked for, on links of at least this rate."""
        return suiting(slowest_bps)

    def chunks(self, plan: P, gradient: Any, chunk_bytes: int) -> int:
        """Count the chunks that all processes send in one synchronisation.

        Raises:
            SpecError: the gradient cannot be cut so.
        """
        raise NotImplementedError

    # Who takes part

    def pairs(self, plan: P) -> list[tuple[int, int]]:
        """List each (sender, receiver) once, sorted."""
        raise NotImplementedError

    def meet(self, plan: P) -> Sequence[int]:
        """Return nodes of which any two may connect, besides processes that meet."""
        return ()

    def processes(self, plan: P) -> Sequence[Process]:
        """Return the processes of a job, with one part each: workers by rank, then the others. A worker has its node's
        name. By default, each node that takes part has one process, and is connected with those of :meth:`pairs`."""
        return one_each(plan, self.pairs(plan))

    # On a node

    def prepare(self) -> None:
        """Import what its processes need, so that those that are forked from this one need not."""

    def join(self, job: WorkerJob, plan: P, part: Participant | None, called_off: Callable[[], None]) -> Session:
        """Meet the other processes of the trial; ``part`` is None where the node has no gradient of its own.

        Raises:
            TrialTimeoutError, WorkerError: one of them did not come.
            PrivilegeError: the kernel refuses the congestion control.
        """
        raise NotImplementedError

    # Afterwards

    def told(self, plan: P, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        """Check the reports of processes against each other, and put them together; ``done`` are their last lines. By
        default nothing is checked, and the samples are as workers wrote them.

        Raises:
            WorkerError: they contradict each other.
        """
        return Told(samples)

    def cost_as_run(self, plan: P, topology: Topology, gradient_bytes: float, told: Told) -> Cost | None:
        """Return the cost of an average synchronisation, if it is known only after the trial; otherwise None."""
        return None

    def wrote(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of an older version, which does not name its kind, is of this one."""
        return False


OWN = frozenset(vars(Kind)) - FORMER.keys()
"""Words that kinds define themselves, though a part may have one with the same name."""


class KindOfForests(Kind[Forest]):
    """A kind whose plans are forests."""

    def check_form(self, plan: Forest, topology: Topology) -> None:
        check_form(plan, topology)

    def encode(self, plan: Forest) -> dict[str, NDArray[Any]]:
        return codec.encode(plan, {name: json.dumps(one) for name, one in _run_by(plan).items()})

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> Forest:
        told = json.loads(str(encoded[self.name])) if _tells(self.run_by) else {}
        return codec.decode(encoded, self.run_by(**told) if self.run_by else None)

    def to_json(self, plan: Forest) -> dict[str, Any]:
        return codec.to_json(plan, _run_by(plan))

    def keepers(self, plan: Forest) -> Sequence[int]:
        return plan.workers[:1]

    def pairs(self, plan: Forest) -> list[tuple[int, int]]:
        return pairs(plan)


AnyKind: TypeAlias = Kind[Any]


IN_EVERY_PLAN = ("library", "asynchronous")
"""The kinds that each plan names, with a value or None, whether it is of them or not. Identities of trials depend on
that, so later kinds are named in their own plans only."""


def _run_by(plan: Forest) -> dict[str, dict[str, Any] | None]:
    """Return the fields of the plan's :attr:`Forest.run_by` under the name of its kind, and None for the other kinds
    that are in every plan."""
    told = None if plan.run_by is None else asdict(plan.run_by)  # type: ignore[call-overload]
    if told:  # what a plan may have, and has not, does not make it another one than before there was such a thing
        told = {name: value for name, value in told.items() if value != ()}
    ours: dict[str, dict[str, Any] | None] = dict.fromkeys(IN_EVERY_PLAN)
    return ours | {plan.kind: told} if told else ours


def _tells(run_by: type[RunBy] | None) -> bool:
    """Whether a ``run_by`` of this type has fields, so that more must be stored than that it is there."""
    return run_by is not None and bool(fields(run_by))  # type: ignore[arg-type]
