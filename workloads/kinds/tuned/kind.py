"""The kind of synchronous schemes whose trees change in mid-run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

from testbed.base.errors import SchemeError, SpecError, WorkerError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.base import Asked, Refusal, Told
from testbed.workloads.kinds.forest.kind import ForestKind
from testbed.workloads.kinds.parts import Carrier, Control, OwnSamples, Reports, Sharing, Simulation
from testbed.workloads.kinds.tuned.plan import Tuned
from testbed.workloads.sync.chunk_size import shortened, suiting
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.neighbours import COUNTS, NUMBERS, SAID_BYTES

if TYPE_CHECKING:
    import pandas as pd

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

MOST_LINES, MOST_SAID = 4, 160
"""Limits on the plans that a worker reports as left out before an iteration, and on the characters of each reason."""
MOST_PARENTS = 2**19
"""Limit on the parents of a plan: a worker reads no longer line (:mod:`testbed.workloads.process.told`)."""


class TunedCarrier(Carrier[Forest]):
    """Carrier that refuses scripts: they tell nothing of their iterations."""

    def for_scripts(self, plan: Forest, topology: Topology) -> Forest:
        raise SchemeError(
            f"scheme {plan.scheme} cannot carry a script: it is tuned by what workers tell of their iterations",
            fix="leave tune out",
        )


class TunedSharing(Sharing[Forest]):
    """Sharing that refuses other jobs: workers are told plans of the whole network."""

    among_others = False

    def placed(self, plan: Forest, part: Part) -> Forest:
        raise SchemeError(
            f"scheme {plan.scheme} is tuned, and needs a network of its own",
            fix="leave tune out, or give it an arm of its own",
        )


class TunedReports(Reports[Forest]):
    """Reports of a worker: plans that it has left out, a few lines for each iteration at most, and its neighbours."""

    def said_bytes(self, plan: Forest) -> int:
        return 2 * MOST_LINES * MOST_SAID + SAID_BYTES

    def journals(self, plan: Forest) -> Collection[str]:
        return [plan.nodes[worker] for worker in plan.workers]


class TunedKind(ForestKind):
    """Trees that a controller replaces by others of the same classes. Any two workers may be neighbours in them."""

    name = "tuned"
    run_by = Tuned
    control = Control(("autotune",))
    own_samples = OwnSamples(("plan", *COUNTS), NUMBERS)
    carrier = TunedCarrier()
    reports = TunedReports()
    sharing = TunedSharing()
    table = None
    simulation: Simulation[Forest] = Simulation()

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        super().refuse(plan, topology, asked)
        if (hosts := len(plan.workers)) * plan.classes > MOST_PARENTS:
            raise SpecError(
                f"scheme {plan.scheme} has {plan.classes:,} classes of {hosts} hosts, too many to tell plans of",
                fix=f"give it classes={MOST_PARENTS // hosts} or fewer",
            )

    def cannot(self, plan: Forest) -> Mapping[str, Refusal]:
        steps = Refusal("steps of a synchronisation change with its plan", "leave tune out, or write of: iteration")
        return {"steps": steps}

    def describe(self, plan: Forest) -> list[tuple[str, str]]:
        return [("tuned", "masters move while it runs; below is the plan at its start")]

    def chunk_bytes(self, plan: Forest, gradient_bytes: float, slowest_bps: float) -> int:
        return shortened(plan, gradient_bytes, suiting(slowest_bps))

    def pairs(self, plan: Forest) -> list[tuple[int, int]]:
        return [*permutations(sorted(plan.workers), 2)]

    def prepare(self) -> None:
        from testbed.workloads.kinds.tuned import node  # noqa: F401

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.tuned.node import join

        return join(job, plan, part, called_off)

    def told(self, plan: Forest, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        several = samples.groupby("iteration")["plan"].nunique() > 1
        if several.any():
            raise WorkerError(
                f"workers followed different plans of {plan.scheme} in iteration {several.idxmax()}",
                fix="see whether a worker writes something else than its samples; then run the trial again",
            )
        return Told(samples)


KIND = TunedKind()
