"""The kind of trials in which a strategy says which servers hold each operator (TopoOpt, sections 3.2 and 5.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.base import Asked, Floats, Kind, Refusal, Told
from testbed.workloads.kinds.forest.kind import KIND as FOREST
from testbed.workloads.kinds.hybrid.parts import WAITS, HeldOperators, HybridSimulation, HybridTable, StrategyPredictor
from testbed.workloads.kinds.hybrid.plan import HybridCost, Plan, ReconfiguredCost, rebuilt, told
from testbed.workloads.kinds.parts import Carrier, Connections, Gate, OwnSamples, Sharing
from testbed.workloads.parallel.operators import FLOAT_BYTES
from testbed.workloads.parallel.strategy import text
from testbed.workloads.sync import codec
from testbed.workloads.sync.cost import Cost, Releases, Shaper
from testbed.workloads.sync.forest import placed
from testbed.workloads.sync.verify import check_form

if TYPE_CHECKING:
    import pandas as pd

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant


class HybridGate(Gate[Plan]):
    """Gates of servers, which hold messages and chunks alike."""

    def cost(self, plan: Plan, topology: Topology, gradient_bytes: float, link_bytes: Floats) -> ReconfiguredCost:
        return ReconfiguredCost(**vars(plan.cost(topology)) | {"link_bytes": link_bytes})


class HybridSharing(Sharing[Plan]):
    """Servers of a strategy that are some of a network's hosts."""

    def placed(self, plan: Plan, part: Part) -> Plan:
        return replace(plan, forest=placed(plan.forest, part))


class HybridKind(Kind[Plan]):
    """Servers that hold some operators each. They send each other outputs and gradients of outputs, and then sum the
    gradients of weights that several of them hold."""

    name = "hybrid"
    carrier = Carrier("hosts hold some operators each, and send outputs")
    connections = Connections(are_parallel=True)
    model_parallel = HeldOperators()
    sharing = HybridSharing()
    gate = HybridGate()
    predictor = StrategyPredictor()
    table = HybridTable()
    simulation = HybridSimulation()
    own_samples = OwnSamples(numbers=(*WAITS, "late_s"))

    # What a plan is

    def check_form(self, plan: Plan, topology: Topology) -> None:
        check_form(plan.forest, topology)

    def verify(self, plan: Plan, topology: Topology) -> None:
        FOREST.verify(plan.forest, topology)

    def refuse(self, plan: Plan, topology: Topology, asked: Asked) -> None:
        if asked.is_trained and asked.mode == "none":
            raise SpecError(
                "under a strategy a training cannot have compute: none: gradients of an iteration need outputs of the "
                "same iteration",
                fix="write compute: {mode: real}, or play a profile",
            )
        if asked.overlap != "none":
            raise SpecError(
                f"under a strategy AllReduces begin when all passes are done, so overlap: {asked.overlap} is not "
                "possible",
                fix="remove overlap, or put the arms with a strategy into an experiment of their own",
            )

    def encode(self, plan: Plan) -> dict[str, NDArray[Any]]:
        return codec.encode(plan.forest, {self.name: json.dumps(told(plan))})

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> Plan:
        return rebuilt(json.loads(str(encoded[self.name])), codec.decode(encoded))

    def to_json(self, plan: Plan) -> dict[str, Any]:
        names = [plan.nodes[node] for node in plan.workers]
        sent = [[names[one.src], names[one.dst], one.bytes] for one in plan.messages if not one.is_local]
        told = {"model": plan.model.name, "strategy": text(plan.model, plan.strategy), "messages": sent}
        return {**codec.to_json(plan.forest, {}), **told}

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        groups = ", ".join(f"{len(members)} servers" for members in plan.layout.groups)
        sent = [one for one in plan.messages if not one.is_local]
        return [("strategy", text(plan.model, plan.strategy)), ("groups", groups), ("MP messages", f"{len(sent):,}")]

    def cannot(self, plan: Plan) -> Mapping[str, Refusal]:
        fix = "leave strategies out of this experiment, or write of: iteration"
        moved = "times and connections under a strategy are planned for the first circuits"
        return {
            "steps": Refusal("under a strategy groups sum beside each other, each in its own steps", fix),
            "circuits": Refusal(moved, "move circuits in an arm without a strategy"),
        }

    # What it costs

    def cost(self, plan: Plan, topology: Topology, gradient_bytes: float) -> Cost:
        assert gradient_bytes == FLOAT_BYTES * plan.gradient_floats
        return plan.cost(topology)

    def releases(self, plan: Plan, topology: Topology, gradient_bytes: float) -> Releases | None:
        return FOREST.releases(plan.forest, topology, gradient_bytes)

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        assert isinstance(cost, HybridCost)
        return cost.least_jct_s(shaper, pace_s)

    def chunk_bytes(self, plan: Plan, gradient_bytes: float, slowest_bps: float) -> int:
        return FOREST.chunk_bytes(plan.forest, gradient_bytes, slowest_bps)

    def chunks(self, plan: Plan, gradient: Gradient, chunk_bytes: int) -> int:
        messages = sum(not one.is_local for one in plan.messages)
        return messages + FOREST.chunks(plan.forest, gradient, chunk_bytes)

    # Who takes part

    def pairs(self, plan: Plan) -> list[tuple[int, int]]:
        return plan.pairs

    # On a node

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.hybrid.worker")

    def join(self, job: WorkerJob, plan: Plan, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.hybrid.worker import Part, join

        assert isinstance(part, Part)  # each server is a worker
        return join(job, plan, part, called_off)

    # Afterwards

    def told(self, plan: Plan, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        from testbed.workloads.kinds.hybrid import account

        return account.told(plan, samples, done, iterations)


KIND = HybridKind()
