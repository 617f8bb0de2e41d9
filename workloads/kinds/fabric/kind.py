"""The kind of schemes whose transfers are scheduled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError, SpecError
from testbed.topologies.model import Topology
from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.base import Asked, Floats, Kind, Refusal, Told
from testbed.workloads.kinds.fabric import plan as plans
from testbed.workloads.kinds.fabric.parts import (
    NOTES,
    DivergenceCheck,
    FabricPredictor,
    FabricReports,
    FabricSimulation,
    FabricSurvivor,
    FabricUnknown,
    ScheduledSamples,
    ScheduledWording,
)
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import (
    Carrier,
    Control,
    OwnChecks,
    OwnSamples,
    Predictor,
    Simulation,
    Survivor,
    Wording,
)
from testbed.workloads.kinds.process import Process
from testbed.workloads.sync import codec
from testbed.workloads.sync.cost import Cost, Shaper

if TYPE_CHECKING:
    import pandas as pd

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

MOST_EXACT = 2**24
"""Whole numbers up to this are exact in float32."""


class FabricKind(Kind[Fabric]):
    """Workers with daemons, a server and a scheduler."""

    name = "fabric"
    plan_type: type[Fabric] = Fabric
    sums_together = False
    carrier = Carrier[Fabric](
        "a scheduler plans updates whose sizes it knows beforehand, and workers get weights, not sums"
    )
    control = Control(("network_monitor",))
    own_samples: OwnSamples = ScheduledSamples(("update", "version", "staleness", "fate"), ("held_s",))
    wording: Wording = ScheduledWording(NOTES, "a single process that makes the server's updates in their order")
    unknown = FabricUnknown()
    predictor: Predictor[Fabric] = FabricPredictor(makes_sums=False)
    survivor: Survivor[Fabric] = FabricSurvivor()
    reports = FabricReports()
    simulation: Simulation[Fabric] = FabricSimulation(makes_sums=False)
    own_checks: OwnChecks[Fabric] | None = DivergenceCheck()

    def check_form(self, plan: Fabric, topology: Topology) -> None:
        if plan.nodes != tuple(node.name for node in topology.nodes):
            raise SchemeError(
                f"scheme {plan.scheme} was built over other nodes than those of {topology.expression}",
                fix="build it for this topology",
            )

    def verify(self, plan: Fabric, topology: Topology) -> None:
        self.check_form(plan, topology)

    def refuse(self, plan: Fabric, topology: Topology, asked: Asked) -> None:
        refuse_unplannable(plan, topology, asked, "updates")
        if plan.options.rate != "constant" and (not asked.is_trained or asked.largest is not None):
            raise SpecError(
                f"scheme {plan.scheme} has rate={plan.options.rate}, and this workload has no learning rate",
                fix="leave rate out, or train a model (kind: train)",
            )
        if asked.optimiser != "sgd":
            raise SpecError(
                f"scheme {plan.scheme} sums updates on their way by the formula of SGD with momentum (eq. 2), and this "
                f"workload has optimiser: {asked.optimiser}",
                fix="take optimiser: sgd, or mlfabric_s, whose workers take the step",
            )
        most = MOST_EXACT // LARGEST // len(plan.workers)
        if not asked.is_trained and asked.iterations > most:
            problem = f"scheme {plan.scheme} adds values exactly for at most {most:,} iterations; here are more"
            raise SpecError(problem, fix=f"give at most {most:,} iterations")

    def cannot(self, plan: Fabric) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment"
        steps = Refusal(
            "workers do not wait for a sum, so a synchronisation has no steps", f"{fix}, or write of: iteration"
        )
        moved = Refusal("the scheduler plans with the routes that it knows at the start", fix)
        return {"steps": steps, "circuits": moved}

    def encode(self, plan: Fabric) -> dict[str, NDArray[Any]]:
        return {"version": np.asarray(codec.VERSION), "fabric": np.asarray(json.dumps(plans.fields(plan)))}

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> Fabric:
        return plans.from_fields(json.loads(str(encoded["fabric"])), self.plan_type)

    def to_json(self, plan: Fabric) -> dict[str, Any]:
        return plans.to_json(plan)

    def describe(self, plan: Fabric) -> list[tuple[str, str]]:
        options = plan.options
        bound = "whatever others came in between"
        if options.delay_bound is not None:
            bound = f"applied if at most {options.delay_bound - 1} others came in between"
        if options.staleness is not None:
            bound = f"workers wait for the slowest one when more than {options.staleness} iterations ahead of it"
        return [
            ("server" if len(plan.servers) == 1 else "servers", ", ".join(plan.nodes[node] for node in plan.servers)),
            *([] if plan.replica is None else [_replica(plan, plan.replica)]),
            ("scheduler", f"{plan.nodes[plan.scheduler]}, plans every {options.window_s:g} s"),
            ("aggregators", ", ".join(plan.nodes[node] for node in plan.aggregators) or "none"),
            ("updates", f"each gradient is one; {bound}"),
        ]

    def keepers(self, plan: Fabric) -> Sequence[int]:
        return plan.servers

    # What it costs

    def cost(self, plan: Fabric, topology: Topology, gradient_bytes: float) -> Cost:
        return self.cost_of(plans.unsummed(plan, gradient_bytes), plan, topology, gradient_bytes)

    def cost_of(self, moved: Iterable[plans.Sent], plan: Fabric, topology: Topology, gradient_bytes: float) -> Cost:
        """Compute the cost of a synchronisation in which this is sent."""
        return plans.cost_of(moved, plan, topology, gradient_bytes)

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        """Return a lower bound of JCT (s): each worker is alone with the network, at its average pace. Links give no
        bound, for updates may be summed or dropped, and an update that is dropped takes no time but for the weights."""
        workers, iterations = pace_s.shape
        alone_s = pace_s.mean(axis=1) + cost.bound_s(shaper) / 2
        return float(iterations * workers / (1 / alone_s).sum())

    def chunks(self, plan: Fabric, gradient: Any, chunk_bytes: int) -> int:
        return 2 * len(plan.workers)

    # Who takes part

    def pairs(self, plan: Fabric) -> list[tuple[int, int]]:
        return plan.pairs

    def processes(self, plan: Fabric) -> Sequence[Process]:
        return plan.processes

    # On a node

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.fabric.processes.node")

    def join(self, job: WorkerJob, plan: Fabric, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.fabric.processes.node import join

        return join(job, plan, part, self.sums_together)

    # Afterwards

    def told(self, plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        from testbed.workloads.kinds.fabric import account

        return account.told(plan, samples, done, iterations)

    def cost_as_run(self, plan: Fabric, topology: Topology, gradient_bytes: float, told: Told) -> Cost | None:
        assert told.moved is not None
        return self.cost_of(told.moved, plan, topology, gradient_bytes)


def _replica(plan: Fabric, node: int) -> tuple[str, str]:
    options = plan.options
    most = f"{options.divergence_updates} updates" if options.divergence_updates else f"{options.divergence_bound:g}"
    sums = ", ".join(plan.nodes[one] for one in plan.replica_aggregators) or "nobody"
    return "replica", f"{plan.nodes[node]}, at most {most} behind the server; {sums} may sum for it"


def refuse_unplannable(plan: Fabric, topology: Topology, asked: Asked, what: str) -> None:
    """Return only if a scheduler can plan what is asked; ``what`` is what workers send.

    Raises:
        SpecError: synchronisation is to overlap computing, nothing is computed, or a switch is to add.
    """
    if asked.overlap != "none":
        raise SpecError(
            f"scheme {plan.scheme} schedules whole {what}, so overlap: {asked.overlap} is not possible",
            fix="remove overlap, or compare it with other schemes in an experiment of its own",
        )
    if asked.mode == "none":
        raise SpecError(
            f"scheme {plan.scheme} schedules updates that are computed one after the other, and with compute: none "
            "nothing is computed between two of them",
            fix="give a pace: compute: {mode: paced, ...}",
        )
    if any(node.ina for node in topology.nodes):
        raise SpecError(
            f"scheme {plan.scheme} sums on hosts, so switches cannot add for it",
            fix="leave ina out of this arm's topology",
        )


KIND = FabricKind()
