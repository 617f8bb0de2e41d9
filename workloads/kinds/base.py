"""What a kind of trial declares, so that nobody has to ask which kind a trial is of.

A kind says what its plans cost and refuse, how a process on a node takes part, and what its samples and bytes mean. All
of it is pure but for :meth:`Kind.join`. The methods here are those of a kind that moves nothing that anyone knows of;
:mod:`testbed.workloads.kinds.forest` has those of synchronous schemes, from which most kinds differ in a few words.
What its callers tell it and are told can be imported from here too: :mod:`.asked` before a trial, :mod:`.evidence`
after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from numpy.typing import NDArray

from testbed.base.check import About, Check
from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.asked import Asked, Demand, Floats, Refusal, Stage, Tool
from testbed.workloads.kinds.evidence import Evidence, Told
from testbed.workloads.plan import Plan
from testbed.workloads.sync import codec
from testbed.workloads.sync.cost import Cost, Releases, Shaper
from testbed.workloads.sync.flows import neighbours, pairs
from testbed.workloads.sync.forest import Forest, RunBy
from testbed.workloads.sync.verify import check_form

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd  # not needed to plan a trial

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.kinds.measures import Measures
    from testbed.workloads.kinds.ranks import Account, RankRows
    from testbed.workloads.learning.replay import Values
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

__all__ = [
    "AnyKind",
    "Asked",
    "Demand",
    "Evidence",
    "Floats",
    "Kind",
    "KindOfForests",
    "Refusal",
    "Stage",
    "Told",
    "Tool",
]

P = TypeVar("P", bound=Plan)
"""The type of a kind's plans."""


class Kind(Generic[P]):
    """A kind of trial, whose plans are of one type. Its attributes are what it declares.

    Attributes:
        name: its folder, and how records call it.
        run_by: the type of :attr:`Forest.run_by` of its plans; None where that is None.
        writes_samples: whether its processes tell of their iterations. Otherwise they are programs of which nothing is
            known but when they began and ended, and what the links carried meanwhile.
        no_trees: why collectives of a script cannot go as its plans say (:meth:`for_scripts`), to go after the scheme.
        sums_together: whether all workers get the sum of an iteration's gradients, so that an iteration has a bound,
            sums can be checked, and bandwidth is defined.
        runs_our_engine: whether a worker's CPU time while it synchronises is our engine's.
        ends_alone: whether the last bytes of a synchronisation are a packet of their own on each connection, of
            :data:`.LAST_PACKET_BYTES` at most, where a host has one connection with each neighbour.
        tells_resent: whether processes tell what TCP sent again to each neighbour.
        parallel_connections: whether its processes have a connection over each of several circuits to a neighbour, and
            send the same bytes over each.
        tells_unsent: whether its processes tell what they have still to send, and hold it while circuits move
            (:attr:`.WorkerJob.gate`).
        shares_network: whether its jobs can share a network with others, each on some of the hosts (:meth:`placed`).
        reference: what the trained weights are compared with; empty where that is plain SGD.
        notes: what a report says about its numbers where they mean something else than those of others, by the name of
            the question that they answer: ``gst``, ``jct``, ``accuracy``, ``waiting``, ``timeline``, ``workers``.
        counts: names of what its samples have besides those of all kinds: whole numbers,
        numbers: and numbers. A name that ends in ``_*`` stands for several, which end in numbers from 1 on.
        controllers: names of what acts on its trials while they run: ours (:mod:`testbed.control.registry`), and entry
            points of the group ``testbed.controllers``.
        tools: what some of its trials need to be installed.
        abouts: what a reader should know of its own checks, which :meth:`Kind.judge` makes.
    """

    name: str
    run_by: type[RunBy] | None = None
    writes_samples = True
    no_trees = "what it moves is no sum that all ranks of a script get"
    sums_together = True
    runs_our_engine = True
    ends_alone = False
    tells_resent = True
    parallel_connections = False
    tells_unsent = False
    shares_network = False
    reference = ""
    notes: Mapping[str, str] = {}
    counts: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    controllers: Sequence[str] = ()
    tools: Sequence[Tool] = ()
    abouts: Sequence[About] = ()

    # What a plan is

    def own_plan(self, topology: Topology) -> P:
        """The plan of a kind whose trials have no scheme.

        Raises:
            SchemeError: it cannot use this topology.
        """
        raise NotImplementedError

    def for_scripts(self, plan: P, topology: Topology) -> Forest:
        """The plan by which the collectives of a script move along the same trees.

        Raises:
            SchemeError: it has none for them.
        """
        raise SchemeError(
            f"scheme {plan.scheme} cannot carry a script: {self.no_trees}",
            fix="take a synchronous scheme, such as ring, ps or rina",
        )

    def check_form(self, plan: P, topology: Topology) -> None:
        """Return only if the plan can be shown: it is for this topology, and its parts fit each other.

        Raises:
            SchemeError: it cannot.
        """

    def drawn(self, plan: P, seed: int) -> P:
        """The plan with all that it draws by lot drawn by the experiment's seed; the same one if it draws nothing."""
        return plan

    def placed(self, plan: P, part: Part) -> P:
        """In the numbers of the whole network, a plan that was made for :attr:`.Part.topology`; of a kind that
        :attr:`shares_network`."""
        raise NotImplementedError

    def verify(self, plan: P, topology: Topology) -> None:
        """Return only if the plan does there what it is for.

        Raises:
            SchemeError: it does not.
        """

    def refuse(self, plan: P, topology: Topology, asked: Asked) -> None:
        """Return only if what is asked makes sense.

        Raises:
            SpecError: it does not.
        """

    def require(self, plan: P) -> None:
        """Return only if this machine has the programs and packages that it takes.

        Raises:
            MissingToolError: it lacks one.
        """

    def encode(self, plan: P) -> dict[str, NDArray[Any]]:
        """All that a worker gets to know of a plan, by name; a trial's identity depends on it."""
        raise NotImplementedError

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> P:
        """The plan that :meth:`encode` took apart."""
        raise NotImplementedError

    def to_json(self, plan: P) -> dict[str, Any]:
        """A plan for programs."""
        raise NotImplementedError

    def describe(self, plan: P) -> list[tuple[str, str]]:
        """For people: names and what they are, beside what all plans have."""
        return []

    def least_text(self, bound: str, whole: str) -> str:
        """For people: the least GST, of a ``bound`` and the time that the busiest link takes for a ``whole`` round."""
        return bound

    def said_bytes(self, plan: P) -> int:
        """What a process tells at most of each worker and iteration, besides its own iterations."""
        return 64

    def cannot(self, plan: P) -> Mapping[str, Refusal]:
        """Effects of perturbations that make no sense for it (``computing``, ``steps``, ``circuits``), and moments that
        are told by ``iterations``; each with the reason."""
        return {}

    def goes_on(self, plan: P) -> bool:
        """Whether the other processes go on when a node dies."""
        return False

    def without(self, plan: P, topology: Topology, tensor_sizes: Sequence[int], dead: Collection[int]) -> P:
        """The plan that one which :meth:`goes_on` is replaced by when these nodes are dead; ``plan`` is the first one.

        Raises:
            SchemeError: it cannot do without them.
        """
        raise NotImplementedError

    def survives(self, plan: P) -> Collection[str]:
        """The processes, of :meth:`processes`, without which the others go on by themselves when they have lost them:
        no plan is made, and nobody rejoins. They notice it within :attr:`.WorkerJob.loss_s`, and one of them tells in
        its last line whom they have lost, with that line's moment: ``lost``, a list of (node, when that was noticed,
        when weights were changed next or None), and ``time`` and ``clock_s``, which are both now on the process's
        clock. What became of the updates is the affair of :meth:`told`."""
        return ()

    def returns(self, plan: P) -> Collection[str]:
        """The processes, of :meth:`processes`, that can be started again from a checkpoint of their own when they were
        killed, or stood still for :attr:`.WorkerJob.loss_s` and were ended therefore, and whom the others then find
        again. They tell of it in their last line, as :meth:`survives` says; with
        a fourth entry, the lost updates as (rank, iteration)."""
        return ()

    def journals(self, plan: P) -> Collection[str]:
        """The processes, of :meth:`processes`, that tell what they do as they go (:meth:`.Session.tells`). Nobody else
        may: what is known of a server that was lost is from there."""
        return ()

    def saved_bytes(self, plan: P, iterations: int) -> int:
        """What the checkpoint of a process that :meth:`returns` has at most besides arrays, after so many iterations of
        each worker."""
        return 0

    def keepers(self, plan: P) -> Sequence[int]:
        """The nodes that write checkpoints: together they have all weights once. None where nobody can."""
        return ()

    # What it costs

    def cost(self, plan: P, topology: Topology, gradient_bytes: float) -> Cost:
        """What one synchronisation costs.

        Raises:
            TopologyError: two neighbours have no route.
        """
        raise NotImplementedError

    def releases(self, plan: P, topology: Topology, gradient_bytes: float) -> Releases | None:
        """Which bytes can have left when; None where that is not known, or would take too long to work out."""
        return None

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        """The least job completion time (s); ``pace_s`` is float64[workers, iterations], what computing takes."""
        raise NotImplementedError

    def likely_jct_s(self, plan: P, demand: Demand) -> float | None:
        """About how long a job takes, for a guess at the time of a run; None where the least time tells as much. It has
        to be quick."""
        return None

    def predicted(self, plan: P, demand: Demand) -> Mapping[str, float]:
        """Numbers of a job if nothing but computing and links took time, whose rates change as
        :attr:`Demand.changes` says and which nothing else disturbs, by names of metrics that
        :mod:`testbed.analysis.dictionary` defines; empty where nobody knows, or it would take too long to work out."""
        return {}

    def iteration_s(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> float | None:
        """The predicted time of an iteration (s), where payload has that share of a link's rate, and workers compute at
        that pace; None where nobody predicts it."""
        return None

    def critical_path(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> Sequence[Stage]:
        """What decides the time of :meth:`iteration_s`, from its start to its end; empty where nobody predicts it."""
        return ()

    def chunk_bytes(self, plan: P, gradient_bytes: float, largest_bytes: int) -> int:
        """The size of chunks where none is asked for, and the links suit chunks of ``largest_bytes``."""
        return largest_bytes

    def chunks(self, plan: P, gradient: Any, chunk_bytes: int) -> int:
        """How many chunks all processes send in one synchronisation.

        Raises:
            SpecError: the gradient cannot be cut so.
        """
        raise NotImplementedError

    def unknown_bytes(self, plan: P) -> str:
        """Why the bytes on the wire cannot be told beforehand; empty where they can."""
        return ""

    def unknown_load(self, plan: P) -> str:
        """Why nobody can tell beforehand whether a machine carries it; empty where somebody can."""
        return ""

    def rounding(self, plan: P) -> float:
        """By how much a right sum of a profile's values may be off."""
        return 0.0

    def scale(self, plan: P) -> float | None:
        """Integer steps to 1.0 of what travels; None where floats do, or where each chunk has a scale of its own."""
        return None

    def sum_error(self, plan: P, norms: float, floats: int, chunk_bytes: int) -> float:
        """By how much the norm of a sum's error may be, besides the rounding of floats, as a share of the ``norms`` of
        its terms, all added."""
        return 0.0

    def paces(self, plan: P) -> Sequence[float]:
        """By rank, how much of the pace a worker computes for at least; empty where each computes all of it."""
        return ()

    # Who takes part

    def pairs(self, plan: P) -> list[tuple[int, int]]:
        """Each (sender, receiver) once, sorted."""
        raise NotImplementedError

    def neighbours(self, plan: P, process: str) -> list[int]:
        """The nodes with which this process of ours has a connection, sorted; at the other end is the one process there
        that has any. So of the processes of a node, one is connected with other nodes, and no two share a port."""
        raise NotImplementedError

    def meet(self, plan: P) -> Sequence[int]:
        """Nodes any two of which may connect, besides neighbours."""
        return ()

    def processes(self, plan: P) -> dict[str, int]:
        """The node of each process, by the process's name (:mod:`testbed.base.process_names`): workers by rank, then
        the others. A worker has its node's name. Here, each node that takes part has one process."""
        others = sorted({node for pair in self.pairs(plan) for node in pair} - set(plan.workers))
        return {plan.nodes[node]: node for node in (*plan.workers, *others)}

    def role(self, plan: P, process: str) -> str:
        """What a process of :meth:`processes` is for, in a word."""
        return "worker" if self.processes(plan)[process] in plan.workers else "aggregator"

    def meeting_port(self, plan: P) -> int | None:
        """Where rank 0 listens for the others, if they meet by themselves."""
        return None

    def needs_agent(self, plan: P) -> bool:
        """Whether a process starts programs on the hosts of others."""
        return False

    def uses_torch(self, plan: P) -> bool:
        """Whether processes have a use for PyTorch even where they train nothing."""
        return False

    def polling(self, plan: P) -> str:
        """Whose processes keep their cores busy while they wait, so that idle time does not tell; empty for nobody."""
        return ""

    # On a node

    def prepare(self) -> None:
        """Import what its processes need, so that those that are forked from this one need not."""

    def wrap(self) -> None:
        """In the process of a rank of the user's script, while it imports PyTorch: give the script the collectives of a
        kind whose ranks are scripts."""
        raise NotImplementedError

    def join(self, job: WorkerJob, plan: P, part: Participant | None, called_off: Callable[[], None]) -> Session:
        """Meet the other processes of the trial; ``part`` is None where the node has no gradient of its own.

        Raises:
            TrialTimeoutError, WorkerError: one of them did not come.
            PrivilegeError: the kernel refuses the congestion control.
        """
        raise NotImplementedError

    def take_part(self, job: WorkerJob, rank: int) -> Participant | None:
        """A worker's part where what it computes depends on the plan; None where its task alone knows it
        (:mod:`testbed.workloads.tasks`)."""
        return None

    def values(self, job: WorkerJob, rank: int) -> Values:
        """A profile's gradients of a rank, and what must become of them."""
        from testbed.workloads.job import Replay
        from testbed.workloads.learning.replay import Updates, Values

        floats, work = job.buckets[-1][1], job.training
        assert isinstance(work, Replay)  # the one task with values
        if self.sums_together:
            return Values(floats, work.seed, rank, job.world, work.tolerance)
        return Updates(floats, work.seed, rank, job.world)

    # Afterwards

    def told(self, plan: P, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        """What processes have told, held against each other; ``done`` are their last lines.

        Raises:
            WorkerError: they contradict each other.
        """
        raise NotImplementedError

    def library(self, plan: P) -> str:
        """Whose backend carries the collectives of a script under this plan; empty for ours."""
        return ""

    def account(self, plan: P, topology: Topology, ranks: Sequence[RankRows], warmup: int, shaper: Shaper) -> Account:
        """What the ranks of a script have told, put together; of a kind whose ranks are programs that tell something.
        ``warmup`` is how many iterations medians are to leave out, and ``shaper`` what links let pass before their
        rates count."""
        raise NotImplementedError

    def cost_as_run(self, plan: P, topology: Topology, gradient_bytes: float, told: Told) -> Cost | None:
        """The cost of an average synchronisation, if that is known only now; otherwise None."""
        return None

    def cost_reconfigured(self, plan: P, topology: Topology, gradient_bytes: float, link_bytes: Floats) -> Cost:
        """The cost of an average synchronisation of a kind that :attr:`tells_unsent`, over circuits that moved
        meanwhile, so that links carried these bytes."""
        raise NotImplementedError

    def judge(self, seen: Evidence) -> Iterable[Check]:
        """Its own checks of a finished trial."""
        return ()

    def held(self, plan: P) -> Sequence[int] | None:
        """By rank, how many weights each worker saves in the end, where none has all of them; None where each has."""
        return None

    def collected(self, plan: P, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """All weights, as the task orders them, of what each worker has saved (:meth:`held`).

        Raises:
            WorkerError: workers that hold the same ones have not the same bits.
        """
        raise NotImplementedError

    def losing(self, plan: P) -> Sequence[int]:
        """The ranks that find a loss in each iteration of a training."""
        return range(len(plan.workers))

    @cached_property
    def measures(self) -> Measures:
        """What the times in its samples mean."""
        from testbed.workloads.kinds.measures import Measures

        return Measures()

    def wrote(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of an older version, which does not name its kind, is of this one."""
        return False


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

    def neighbours(self, plan: Forest, process: str) -> list[int]:
        return neighbours(plan, plan.nodes.index(process))  # each node has one process, called like it


AnyKind: TypeAlias = Kind[Any]


IN_EVERY_PLAN = ("library", "asynchronous")
"""The kinds of which each plan says whether it is of them. Identities of trials depend on that, so kinds that came
later are named in their own plans only."""


def _run_by(plan: Forest) -> dict[str, dict[str, Any] | None]:
    """By kinds that have one, who runs the plan."""
    told = None if plan.run_by is None else asdict(plan.run_by)  # type: ignore[call-overload]
    if told:  # what a plan may have, and has not, does not make it another one than before there was such a thing
        told = {name: value for name, value in told.items() if value != ()}
    ours: dict[str, dict[str, Any] | None] = dict.fromkeys(IN_EVERY_PLAN)
    return ours | {plan.kind: told} if told else ours


def _tells(run_by: type[RunBy] | None) -> bool:
    """Whether there is more to say of it than that it is there."""
    return run_by is not None and bool(fields(run_by))  # type: ignore[arg-type]
