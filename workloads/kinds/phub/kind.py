"""The kind of trials with a box: a parameter server whose cores own keys and take the step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError, SpecError
from testbed.base.listing import counted
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.base import Asked, Kind, Refusal
from testbed.workloads.kinds.parts import (
    Carrier,
    Connections,
    Iterations,
    OwnSamples,
    Sharing,
    Simulation,
    TellLines,
    Wording,
)
from testbed.workloads.kinds.phub import cost as costs
from testbed.workloads.kinds.phub.plan import FLOAT_BYTES, Plan, from_fields
from testbed.workloads.kinds.process import Process
from testbed.workloads.sync import codec
from testbed.workloads.sync.cost import Cost

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.wires import Wires
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant


class BoxWording(Wording):
    """Words for a synchronisation through a box."""

    def least_gst(self, bound: str, whole: str) -> str:
        return f"{bound} until all keys are pushed and the largest piece is back"


class BoxSharing(Sharing[Plan]):
    """Boxes, each of which may serve several jobs."""

    server = "box"

    def placed(self, plan: Plan, part: Part) -> Plan:
        names = [node.name for node in part.whole.nodes]
        workers, boxes = (tuple(part.nodes[node] for node in nodes) for nodes in (plan.workers, plan.boxes))
        return replace(plan, nodes=tuple(names), workers=workers, boxes=boxes)


class BoxSimulation(Simulation[Plan]):
    """Decisions of workers and cores, message by message."""

    overlaps = ("none",)
    is_by_message = True
    message_s = 2e-5

    def knows(self, plan: Plan) -> bool:
        return True

    def messages(self, plan: Plan, chunks: tuple[Gradient, int]) -> int:
        return count(plan)

    def begin(self, plan: Plan, asked: Iterations, wires: Wires) -> TellLines:
        from testbed.workloads.kinds.phub.played import Played

        return Played(plan, asked, wires).lines


def count(plan: Plan) -> int:
    """Count keys from workers, values to them, and sums between boxes."""
    across = len(plan.boxes) - 1 if plan.homes else 0
    return 2 * (len(plan.workers) + across) * len(plan.keys)


class BoxKind(Kind[Plan]):
    """Workers, the cores of a box, and its manager. Each worker gets weights that all gradients of an iteration have
    changed."""

    name = "phub"
    carrier = Carrier("a box takes steps on weights, and a script has none there")
    connections = Connections(are_parallel=True, are_chosen=True)
    wording = BoxWording()
    sharing = BoxSharing()
    simulation = BoxSimulation()
    own_samples = OwnSamples(numbers=("ready_s_*", "pushed_s_*", "back_s_*"))

    def check_form(self, plan: Plan, topology: Topology) -> None:
        if plan.nodes != tuple(node.name for node in topology.nodes):
            raise SchemeError(
                f"scheme {plan.scheme} is for other nodes than those of {topology.expression}",
                fix="build it for this topology",
            )

    def refuse(self, plan: Plan, topology: Topology, asked: Asked) -> None:
        who, fix = f"scheme {plan.scheme}", "or compare it with other schemes in an experiment of its own"
        if asked.overlap == "both":
            raise SpecError(
                f"{who} tells when all weights are there, and not when those of a layer are, so overlap: both is not "
                "possible",
                fix=f"write overlap: layer, {fix}",
            )
        if asked.priority:
            raise SpecError(
                f"{who} takes no priority: layer: keys come in their order", fix=f"remove priority: layer, {fix}"
            )
        if asked.is_trained and asked.mode == "none":
            raise SpecError(
                f"{who} takes a step in each iteration, and compute: none computes only one gradient",
                fix="give a pace: compute: {mode: paced, ...}",
            )
        if any(node.ina for node in topology.nodes):
            raise SpecError(
                f"{who} sums on hosts, so switches cannot add for it", fix="leave ina out of this arm's topology"
            )

    def encode(self, plan: Plan) -> dict[str, NDArray[Any]]:
        return {"version": np.asarray(codec.VERSION), self.name: np.asarray(json.dumps(plan.fields()))}

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> Plan:
        return from_fields(json.loads(str(encoded[self.name])))

    def to_json(self, plan: Plan) -> dict[str, Any]:
        core_at = {place: name for name, place in plan.cores_at.items()}
        owned = zip(plan.keys, plan.places, strict=True)
        return {**plan.fields(), "keys": [[*key.span, core_at[place]] for key, place in owned]}

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        boxes = "each worker" if plan.boxes == plan.workers else ", ".join(plan.nodes[box] for box in plan.boxes)
        most = FLOAT_BYTES * max(key.floats for key in plan.keys)
        return [
            ("box", f"{boxes}, with {counted(plan.nics, 'NIC')} of {counted(plan.cores, 'core')} each"),
            ("keys", f"{len(plan.keys):,}, of {most:,} bytes at most"),
            ("aggregation", plan.aggregation),
        ]

    def cannot(self, plan: Plan) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment"
        steps = Refusal(
            "cores send keys as they come, so a synchronisation has no steps", f"{fix}, or write of: iteration"
        )
        return {"steps": steps, "circuits": Refusal("a box has its NICs for the whole trial", fix)}

    def keepers(self, plan: Plan) -> Sequence[int]:
        return plan.workers[:1]

    def cost(self, plan: Plan, topology: Topology, gradient_bytes: float) -> Cost:
        return costs.cost(plan, topology, gradient_bytes)

    def chunks(self, plan: Plan, gradient: Gradient, chunk_bytes: int) -> int:
        return count(plan)

    def pairs(self, plan: Plan) -> list[tuple[int, int]]:
        return plan.pairs()

    def processes(self, plan: Plan) -> Sequence[Process]:
        return plan.processes()

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.phub.node")

    def join(self, job: WorkerJob, plan: Plan, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.phub.node import join

        return join(job, plan, part)


KIND = BoxKind()
