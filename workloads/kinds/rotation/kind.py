"""The kind of plans that have the trees of one class, and a rotation. They are played in simulated time alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Asked, Kind
from testbed.workloads.kinds.parts import Simulation
from testbed.workloads.play.synchronisation import Alike, Synchronisation, synchronisation
from testbed.workloads.sync import rotation
from testbed.workloads.sync.chunks import FLOAT_BYTES, ChunkTable, cut
from testbed.workloads.sync.cost import Cost, cost_of_flows, depth
from testbed.workloads.sync.rotation import MOST_HOSTS, Rotation
from testbed.workloads.sync.verify import check_form, verify

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient

TREES = ("reduce", "broadcast", "turn", "like")
"""Arrays of a plan."""
Chunks = tuple["Gradient", int]


class RotationSimulation(Simulation[Rotation]):
    """The play of class 0, on one link and one pair of nodes for all that are like it."""

    is_of_trees = True
    plays_one_class = True

    def knows(self, plan: Rotation) -> bool:
        return True

    def messages(self, plan: Rotation, chunks: Chunks) -> int:
        return len(plan.edges) * len(_cut(plan, chunks)[0])

    def synchronisation(self, plan: Rotation, chunks: Chunks) -> Synchronisation:
        table, chunk_bytes = _cut(plan, chunks)
        made = synchronisation(plan.class_0, table)
        pairs = plan.place[made.pairs]
        _, first, which = np.unique(
            (pairs[:, 1] - pairs[:, 0]) % len(plan.workers), return_index=True, return_inverse=True
        )
        alike = Alike(plan.like, first[which].astype(np.int32))
        return replace(made, chunk_bytes=chunk_bytes, alike=alike)

    def recorded_links(self, plan: Rotation) -> Collection[int]:
        return set(plan.like.tolist())


class RotationKind(Kind[Rotation]):
    """Trees of classes that are alike, of which one says what happens. No process gets to know the others' trees."""

    name = rotation.KIND
    simulation: Simulation[Rotation] = RotationSimulation()

    def check_form(self, plan: Rotation, topology: Topology) -> None:
        check_form(plan.class_0, topology)

    def verify(self, plan: Rotation, topology: Topology) -> None:
        verify(plan.class_0, topology)
        rotation.check(plan, topology)

    def refuse(self, plan: Rotation, topology: Topology, asked: Asked) -> None:
        if asked.is_trained or asked.mode == "real":
            raise SpecError(
                f"{plan.scheme} on {len(plan.workers):,} hosts is only simulated",
                fix=f"play a profile with a pace in the lab simulator, or take at most {MOST_HOSTS:,} hosts",
            )

    def encode(self, plan: Rotation) -> dict[str, NDArray[Any]]:
        trees = {name: getattr(plan, name) for name in TREES}
        named = {"scheme": plan.scheme, "nodes": plan.nodes, "workers": plan.workers}
        return {name: np.asarray(value) for name, value in (named | trees).items()}

    def decode(self, encoded: Mapping[str, NDArray[Any]]) -> Rotation:
        names, workers = tuple(map(str, encoded["nodes"])), tuple(map(int, encoded["workers"]))
        return Rotation(str(encoded["scheme"]), names, workers, *(encoded[name] for name in TREES))

    def to_json(self, plan: Rotation) -> dict[str, Any]:
        trees = {name: getattr(plan, name).tolist() for name in TREES[:3]}
        return {"scheme": plan.scheme, "nodes": list(plan.nodes), "workers": list(plan.workers), **trees}

    def describe(self, plan: Rotation) -> list[tuple[str, str]]:
        return [("classes", f"{len(plan.workers):,}, each like class 0 after a turn")]

    def cost(self, plan: Rotation, topology: Topology, gradient_bytes: float) -> Cost:
        rounds = depth(np.stack([plan.reduce, plan.broadcast])).sum()
        return cost_of_flows(plan.flows(gradient_bytes), topology, int(rounds))

    def chunks(self, plan: Rotation, gradient: Gradient, chunk_bytes: int) -> int:
        return len(plan.workers) * len(plan.edges) * len(_cut(plan, (gradient, chunk_bytes))[0])

    def pairs(self, plan: Rotation) -> list[tuple[int, int]]:
        traffic = plan.flows(1.0)
        return list(zip(traffic.senders.tolist(), traffic.receivers.tolist(), strict=True))


def _cut(plan: Rotation, chunks: Chunks) -> tuple[ChunkTable, NDArray[np.float64]]:
    """Cut the share that class 0 has of each bucket; return the bytes of its chunks as well. Where floats do not come
    out even, each class counts as the average one, so that links carry what they should."""
    gradient, chunk_bytes = chunks
    floats = np.array([stop - start for start, stop in gradient.buckets]) / len(plan.workers)
    stops = np.cumsum(np.ceil(floats).astype(np.int64)).tolist()
    table = cut(plan.class_0, stops[-1], list(zip([0, *stops], stops, strict=False)), chunk_bytes)
    each = floats / np.bincount(table.bucket, minlength=len(floats))
    return table, FLOAT_BYTES * each[table.bucket]


KIND = RotationKind()
