"""Optional parts of a kind of trial: attributes of :class:`.base.Kind` that are None, or have nothing to say, where a
kind does without them.

Callers ask whether a part is there, if it may be None. Kinds without a part define nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.asked import Demand, Floats, Stage
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import Cost, Shaper
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    import numpy as np

    from testbed.base.check import About, Check
    from testbed.workloads.job import Compute, WorkerJob
    from testbed.workloads.kinds.evidence import Expected, Told
    from testbed.workloads.kinds.measures import Measures
    from testbed.workloads.kinds.ranks import Account, Collected, RankRows
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.learning.parts import Span
    from testbed.workloads.play.exchange import Moved
    from testbed.workloads.play.steps import Steps
    from testbed.workloads.play.synchronisation import Synchronisation
    from testbed.workloads.play.wires import Wires
    from testbed.workloads.sync.messages import Message
    from testbed.workloads.tasks.base import Participant

P = TypeVar("P", bound=Plan)
"""The type of a kind's plans."""


@dataclass(frozen=True)
class Connections:
    """Connections of our engine, which tell what TCP sent again to each neighbour. While a worker synchronises, its CPU
    time is the engine's.

    Attributes:
        end_alone: whether the last bytes of a synchronisation are a packet of their own on each connection, of
            :data:`.LAST_PACKET_BYTES` at most, where a host has one connection with each neighbour.
        are_parallel: whether processes have a connection over each of several circuits to a neighbour, and send the
            same bytes over each.
        are_chosen: whether the plan says which bytes take which of parallel connections.
    """

    end_alone: bool = False
    are_parallel: bool = False
    are_chosen: bool = False


class Software(Generic[P]):
    """Programs and packages of other people that move the bytes. The processes meet and wait as these like."""

    def require(self, plan: P) -> None:
        """Return only if this machine has the programs and packages that the plan takes.

        Raises:
            MissingToolError: it lacks one.
        """

    def meeting_port(self, plan: P) -> int | None:
        """Return the port at which rank 0 listens for the others, if they meet by themselves; otherwise None."""
        return None

    def needs_agent(self, plan: P) -> bool:
        """Whether a process starts programs on the hosts of others."""
        return False

    def uses_torch(self, plan: P) -> bool:
        """Whether processes have a use for PyTorch even where they train nothing."""
        return False

    def polling(self, plan: P) -> str:
        """Name the processes that keep their cores busy while they wait, so that idle time says nothing; empty if none
        does."""
        return ""


class ModelParallel(Generic[P]):
    """A model of which each worker holds a part only, so that the plan decides what a worker computes.

    Attributes:
        waits: columns of samples, for how long (s) a worker had nothing to compute before its gradient was ready.
    """

    waits: Sequence[str]

    def steps(self, plan: P) -> Steps:
        """Return the passes of all workers in an iteration, with the messages between them."""
        raise NotImplementedError

    def groups(self, plan: P) -> Mapping[tuple[int, ...], int]:
        """Return the number of floats that workers sum after their passes, by the ranks that sum them."""
        raise NotImplementedError

    def paces(self, plan: P) -> Sequence[float]:
        """Return by rank the least share of the pace for which a worker computes."""
        raise NotImplementedError

    def take_part(self, job: WorkerJob, rank: int) -> Participant:
        """Make a worker's part in a job."""
        raise NotImplementedError

    def losing(self, plan: P) -> Sequence[int]:
        """Return the ranks that compute a loss in each iteration of a training."""
        raise NotImplementedError

    def held(self, plan: P) -> Sequence[int]:
        """Return by rank how many weights each worker saves in the end."""
        raise NotImplementedError

    def collected(self, plan: P, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Put together all weights, as the task orders them, from those that each worker has saved (:meth:`held`).

        Raises:
            WorkerError: workers that hold the same ones have not the same bits.
        """
        raise NotImplementedError


class Gate(Generic[P]):
    """A gate at each process, which tells what the process has still to send, and holds it while circuits move
    (:attr:`.WorkerJob.gate`)."""

    def cost(self, plan: P, topology: Topology, gradient_bytes: float, link_bytes: Floats) -> Cost:
        """Return the cost of an average synchronisation over circuits that moved meanwhile, so that links carried these
        bytes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Control:
    """Controllers that act on a kind's trials while they run.

    Attributes:
        controllers: names: ours (:mod:`testbed.control.registry`), and entry points of the group
            ``testbed.controllers``.
    """

    controllers: Sequence[str] = ()


class OwnSamples:
    """Samples that have more, or mean something else, than those of synchronous schemes.

    Attributes:
        counts: names of what they have besides those of all kinds: whole numbers,
        numbers: and numbers. A name that ends in ``_*`` stands for several, which end in numbers from 1 on.
    """

    def __init__(self, counts: Collection[str] = (), numbers: Collection[str] = ()) -> None:
        self.counts, self.numbers = frozenset(counts), frozenset(numbers)

    @cached_property
    def measures(self) -> Measures:
        """Meaning of the times in the samples."""
        from testbed.workloads.kinds.measures import Measures

        return Measures()


class Wording:
    """Words for people where numbers mean something else than those of synchronous schemes.

    Attributes:
        notes: what a report says about the numbers, by the name of the question that they answer: ``gst``, ``jct``,
            ``accuracy``, ``waiting``, ``timeline``, ``workers``.
        reference: what the trained weights are compared with; empty where that is plain SGD.
    """

    def __init__(self, notes: Mapping[str, str] | None = None, reference: str = "") -> None:
        self.notes, self.reference = notes or {}, reference

    def least_gst(self, bound: str, whole: str) -> str:
        """Word the least GST, from a ``bound`` and the time that the busiest link takes for a ``whole`` round."""
        return bound


class Carrier(Generic[P]):
    """Trees of a plan along which collectives of a script can move. A kind whose plans have none says ``why``, in words
    that go after the scheme."""

    def __init__(self, why: str = "what it moves is no sum that all ranks of a script get") -> None:
        self.why = why

    def for_scripts(self, plan: P, topology: Topology) -> Forest:
        """Make the plan by which the collectives of a script move along the same trees.

        Raises:
            SchemeError: it has none for them.
        """
        raise SchemeError(
            f"scheme {plan.scheme} cannot carry a script: {self.why}",
            fix="take a synchronous scheme, such as ring, ps or rina",
        )


class Unknown(Generic[P]):
    """Facts about a trial that cannot be told beforehand, and why. By default, there are none."""

    def bytes(self, plan: P) -> str:
        """Say why the bytes on the wire cannot be told; empty where they can."""
        return ""

    def load(self, plan: P) -> str:
        """Say why it cannot be told whether a machine carries the load; empty where it can."""
        return ""


class Predictor(Generic[P]):
    """A theory of trials, which predicts times. These methods are those of a theory that predicts nothing."""

    def likely_jct_s(self, plan: P, demand: Demand) -> float | None:
        """Estimate how long (s) a job takes, to guess the time of a run; None where the least time says as much. This
        has to be quick."""
        return None

    def predicted(self, plan: P, demand: Demand) -> Mapping[str, float]:
        """Predict numbers of a job in which only computing and links take time, links change as :attr:`Demand.changes`
        says, and nothing else disturbs. Keys are names of metrics that :mod:`testbed.analysis.dictionary` defines;
        empty where there is no prediction, or it would take too long."""
        return {}

    def iteration_s(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> float | None:
        """Predict the time of an iteration (s), where ``goodput`` is payload's share of a link's rate, and computing
        takes ``pace_s``; None where there is no prediction."""
        return None

    def critical_path(self, plan: P, topology: Topology, pace_s: float, goodput: float) -> Sequence[Stage]:
        """List the stages that decide the time of :meth:`iteration_s`, from its start to its end; empty where there is
        no prediction."""
        return ()


class Survivor(Generic[P]):
    """Processes that go on by themselves when others are lost: no new plan is made, and a lost process does not rejoin.

    The others notice a loss within :attr:`.WorkerJob.loss_s`. One of them reports it in its last line, with that line's
    moment: ``lost``, a list of (node, when that was noticed, when weights were changed next or None), and ``time`` and
    ``clock_s``, which are both now on the process's clock. :meth:`.Kind.told` finds out what became of the updates.
    """

    def survives(self, plan: P) -> Collection[str]:
        """Return the processes, of :meth:`.Kind.processes`, without which the others go on."""
        return ()

    def returns(self, plan: P) -> Collection[str]:
        """Return the processes, of :meth:`.Kind.processes`, that can be started again from a checkpoint of their own
        when they were killed, or stood still for :attr:`.WorkerJob.loss_s` and were ended therefore. The other
        processes then find them again. They report it in their last line as a loss, with a fourth entry: the lost
        updates as (rank, iteration)."""
        return ()

    def saved_bytes(self, plan: P, iterations: int) -> int:
        """Return an upper bound of the bytes, besides arrays, in the checkpoint of a process that :meth:`returns`,
        after so many iterations of each worker."""
        return 0


class Reports(Generic[P]):
    """Reports of processes about more than their own iterations. By default they need little room, and come in the
    end."""

    def said_bytes(self, plan: P) -> int:
        """Return an upper bound of the bytes that a process reports for each worker and iteration, besides its own
        iterations."""
        return 64

    def journals(self, plan: P) -> Collection[str]:
        """Return the processes, of :meth:`.Kind.processes`, that report what they do as they go
        (:meth:`.Session.tells`). No other process may: these reports are all that is known of a server that was
        lost."""
        return ()


class Program(Generic[P]):
    """Programs that synchronise by themselves, without a scheme. Nothing is known of them but when they began and
    ended, and what the links carried meanwhile."""

    def own_plan(self, topology: Topology) -> P:
        """Make the plan of a trial on this topology.

        Raises:
            SchemeError: it cannot use this topology.
        """
        raise NotImplementedError


class Scripts(Generic[P]):
    """Ranks of a user's script whose collectives go as the plan says, and which report something."""

    def wrap(self) -> None:
        """Give the script the collectives of the kind. This runs in the process of a rank, while it imports PyTorch."""
        raise NotImplementedError

    def library(self, plan: P) -> str:
        """Name the library whose backend carries the collectives under this plan; empty for ours."""
        raise NotImplementedError

    def account(self, plan: P, topology: Topology, ranks: Sequence[RankRows], warmup: int, shaper: Shaper) -> Account:
        """Put together the reports of the ranks. ``warmup`` is how many iterations medians are to leave out, and
        ``shaper`` what links let pass before their rates count."""
        raise NotImplementedError

    def moved(self, plan: P, ranks: Sequence[int], asked: Collected, chunk_bytes: int) -> tuple[Sequence[Moved], str]:
        """Return what moves in a collective of these ranks, in parts that do not wait for each other, and who moves
        it."""
        raise NotImplementedError


class Lots(Generic[P]):
    """Chance in a plan, which is drawn by lot."""

    def drawn(self, plan: P, seed: int) -> P:
        """Draw by lot, with the experiment's seed, all that the plan leaves to chance; return the plan itself if it
        leaves nothing."""
        raise NotImplementedError


class Sharing(Generic[P]):
    """Plans on some of a network's hosts, or on all in an order of their ranks.

    Attributes:
        among_others: whether its jobs can share a network with others.
        server: what a host is called that only serves, if it can serve several jobs; empty if it cannot.
    """

    among_others = True
    server = ""

    def placed(self, plan: P, part: Part) -> P:
        """Put a plan that was made for :attr:`.Part.topology` into the whole network's numbers of nodes."""
        raise NotImplementedError


class Repair(Generic[P]):
    """New plans for those that are left when nodes die."""

    def goes_on(self, plan: P) -> bool:
        """Whether the other processes go on when a node dies."""
        raise NotImplementedError

    def without(self, plan: P, topology: Topology, tensor_sizes: Sequence[int], dead: Collection[int]) -> P:
        """Make the plan that replaces one which :meth:`goes_on` when these nodes are dead; ``plan`` is the trial's
        first one. Whoever asks for it verifies it.

        Raises:
            SchemeError: it cannot do without them.
        """
        raise NotImplementedError


class Arithmetic(Generic[P]):
    """Arithmetic of sums. These methods are those of floats."""

    def rounding(self, plan: P) -> float:
        """Return by how much a right sum of a profile's values may be off."""
        return 0.0

    def scale(self, plan: P) -> float | None:
        """Return how many integer steps make 1.0 in what travels; None where floats travel, or where each chunk has a
        scale of its own."""
        return None

    def sum_error(self, plan: P, norms: float, floats: int, chunk_bytes: int) -> float:
        """Return an upper bound of the norm of a sum's error, besides the rounding of floats, as a share of the
        ``norms`` of its terms, all added."""
        return 0.0


class Groups(Generic[P]):
    """Sums among some of the workers."""

    def summed(self, plan: P, job: WorkerJob) -> Sequence[tuple[Span, Collection[int]]]:
        """List spans of the gradient, in floats, each with the ranks whose sum it becomes; empty where all of it is the
        sum of all workers."""
        raise NotImplementedError


class OwnChecks(Generic[P]):
    """Checks of finished trials that only this kind makes.

    Attributes:
        abouts: what a reader should know of each.
    """

    abouts: Sequence[About]

    def judge(self, plan: P, told: Told, expected: Expected) -> Iterable[Check]:
        """Make the checks of a finished trial."""
        raise NotImplementedError


class Table(Generic[P]):
    """Transfers of an iteration that are known beforehand, one by one."""

    def messages(self, plan: P, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        """Yield the messages of one synchronisation, predecessors first, and those of each node in the order in which
        it sends them; no list of all is made.

        Raises:
            SpecError: the gradient cannot be cut so.
        """
        raise NotImplementedError


class PlayedWorker:
    """A worker whose iterations are played by message.

    Attributes:
        start_s, ready_s: when it began its latest iteration, and had its gradient.
        lines: what it says of the iterations that it has ended.
    """

    def __init__(self, rank: int, node: int) -> None:
        self.rank, self.node = rank, node
        self.start_s = self.ready_s = 0.0
        self.lines: list[dict[str, Any]] = []


@dataclass(frozen=True)
class Iterations:
    """Iterations that are played by message.

    Attributes:
        floats: those of the gradient.
        count: how many there are; where whoever is faster does more of them, that is of each worker on average.
        computes: how workers compute, by rank.
        done: called with how many are done.
        seed: of what is drawn while they run.
        late_s: tells how much later a worker begins an iteration, by rank and number, than it could.
    """

    floats: int
    count: int
    computes: Sequence[Compute]
    done: Callable[[int], None]
    seed: int = 0
    late_s: Callable[[int, int], float] = lambda _rank, _number: 0.0

    def begin(self, worker: PlayedWorker, wires: Wires, push: Callable[[], None]) -> None:
        """Let a worker compute from this moment of the wires on, and call ``push`` when it has its gradient."""

        def ready() -> None:
            worker.ready_s = wires.now_s
            push()

        number = len(worker.lines)
        worker.start_s = wires.now_s + self.late_s(worker.rank, number)
        compute = self.computes[worker.rank]
        factor, extra_s = compute.slowdown(number)
        wires.at(worker.start_s + (factor * compute.pace_s + extra_s), ready)

    def line(self, worker: PlayedWorker, end_s: float) -> dict[str, Any]:
        """Return what a worker says of an iteration, which ends as it has what it can go on with; that took no time."""
        number = len(worker.lines)
        factor, extra_s = self.computes[worker.rank].slowdown(number)
        return {
            **{"kind": "iteration", "i": number, "rank": worker.rank, "node": worker.node, "loss": None},
            **{"start": worker.start_s, "ready": worker.ready_s, "sum": end_s, "end": end_s},
            **{"compute_s": worker.ready_s - worker.start_s, "factor": factor, "extra_s": extra_s},
            **{"overrun_s": 0.0, "wait_s": 0.0, "cpu_s": 0.0},
        }


TellLines = Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]
"""Function that returns, by process as :meth:`.Kind.processes` names it, what it says of iterations, and, last, what it
says at its end besides what all say. It raises TrialError if something waits for what never comes."""


class Simulation(Generic[P]):
    """Decisions of all processes in simulated time; those of this class are not known.

    Attributes:
        overlaps, priorities: values of ``overlap`` and ``priority`` that are played.
        is_of_trees: whether plans are forests, and nothing moves but along their trees, as testbed's engine has it.
        is_by_message: whether :meth:`begin` decides about each message, in place of a :meth:`synchronisation`.
        message_s: seconds that a message takes here, to plan, play and account for it.
        plays_one_class: whether one class stands for all, so that nothing may differ between workers or links.
        begins_within_s: workers begin their first iteration so far apart at most, by lot, where who comes first
            decides what follows; with :meth:`begin`. Its schemes are in :data:`.schemes.registry.BY_LOT`.
        late_s: mean by which they begin each later one late, by lot.
    """

    overlaps: Collection[str] = ("none", "layer")
    priorities: Collection[str] = ("none",)
    is_of_trees = False
    is_by_message = False
    plays_one_class = False
    begins_within_s = late_s = 0.0
    message_s = 1.2e-5
    """On a busy machine 3 us (``ring``) to 24 us (``ps``) with 256 hosts, 6 us with schemes on a dragonfly."""

    @property
    def is_of_schemes(self) -> bool:
        """Whether nothing but its scheme decides what moves: neither a strategy nor a script."""
        return self.is_of_trees or self.is_by_message

    def knows(self, plan: P) -> bool:
        """Whether a plan has :meth:`messages`, and a :meth:`synchronisation` or :meth:`begin`."""
        return False

    def messages(self, plan: P, chunks: tuple[Gradient, int]) -> int:
        """Count the messages of an iteration; ``chunks`` are as for :meth:`synchronisation`."""
        raise NotImplementedError

    def synchronisation(self, plan: P, chunks: tuple[Gradient, int]) -> Synchronisation:
        """Return what is decided in an iteration; ``chunks`` are what is synchronised, and the size (bytes) of its
        chunks."""
        raise NotImplementedError

    def begin(self, plan: P, asked: Iterations, wires: Wires) -> TellLines:
        """Begin all iterations of a job at this moment of the wires. Return a function that tells what processes say,
        once the wires have run."""
        raise NotImplementedError

    def recorded_links(self, plan: P) -> Collection[int] | None:
        """Return the directed links that stand for all in a record; None where each has an entry of its own."""
        return None

    def iteration(self, waited_s: tuple[float, ...]) -> Mapping[str, Any]:
        """Return what a worker with steps says of an iteration besides times: by phase (:mod:`.play.steps`), it had no
        step to take for so long (s)."""
        return {}

    def done(self, sent_bytes: Mapping[int, int]) -> Mapping[str, Any]:
        """Return what a process says in its last line besides what all say: it sent so many bytes to other nodes."""
        return {}


PARTS: dict[str, type[Any]] = {
    "own_samples": OwnSamples,
    "wording": Wording,
    "carrier": Carrier,
    "unknown": Unknown,
    "control": Control,
    "software": Software,
    "predictor": Predictor,
    "survivor": Survivor,
    "reports": Reports,
    "arithmetic": Arithmetic,
    "connections": Connections,
    "model_parallel": ModelParallel,
    "gate": Gate,
    "program": Program,
    "scripts": Scripts,
    "lots": Lots,
    "sharing": Sharing,
    "repair": Repair,
    "groups": Groups,
    "own_checks": OwnChecks,
    "table": Table,
    "simulation": Simulation,
}
"""The class of each part, by the attribute that a kind has it as."""
FORMER = {
    **{"writes_samples": "program", "tells_unsent": "gate", "cost_reconfigured": "gate", "shares_network": "sharing"},
    **dict.fromkeys(("runs_our_engine", "ends_alone", "tells_resent", "parallel_connections"), "connections"),
    **dict.fromkeys(("counts", "numbers"), "own_samples"),
    **dict.fromkeys(("notes", "reference", "least_text"), "wording"),
    **dict.fromkeys(("unknown_bytes", "unknown_load"), "unknown"),
    **{"no_trees": "carrier", "controllers": "control", "abouts": "own_checks", "values": "groups"},
}
"""The part that says now what kinds once said in words which no part has."""


def part_that_says(word: str) -> str | None:
    """Return the name of the part that a word is of, or that took its place; None if there is none."""
    return FORMER.get(word) or next((name for name, part in PARTS.items() if word in vars(part)), None)
