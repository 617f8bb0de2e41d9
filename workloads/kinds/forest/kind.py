"""The kind of synchronous schemes, whose forests our engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.base.compiled import FIX
from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.base import Asked, Floats, KindOfForests, Told, Tool
from testbed.workloads.kinds.forest.fixed_point import FixedPointArithmetic
from testbed.workloads.kinds.forest.groups import ForestGroups
from testbed.workloads.kinds.forest.repair import ForestRepair
from testbed.workloads.kinds.forest.sharing import ForestSharing
from testbed.workloads.kinds.forest.simulation import ForestSimulation
from testbed.workloads.kinds.forest.table import ForestTable
from testbed.workloads.kinds.parts import Carrier, Connections, Repair, Sharing, Simulation, Table
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.chunk_size import shortened, suiting
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.compiled import LIBRARY
from testbed.workloads.sync.cost import Cost, Releases, Shaper, cost
from testbed.workloads.sync.fixed_point import furthest, least_scale
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.verify import verify

if TYPE_CHECKING:
    import pandas as pd

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

MOST_ROUNDED = 1e-3 * LARGEST
"""Largest change that fixed point may make to a sum of a profile's values, which are whole numbers up to
``LARGEST``."""
HALF = 0.5
"""A sum that is off by less than this becomes, by rounding, the whole number that it should be."""
MOST_EDGES = 20_000
"""Number of edges of a forest up to which it is followed edge by edge who was ready when. With more, the bound is that
of all bytes from the first worker's gradient on. Most networks of up to 128 workers have fewer."""


class ForestCarrier(Carrier[Forest]):
    """The trees of the forest itself."""

    def for_scripts(self, plan: Forest, topology: Topology) -> Forest:
        return scripted(plan)


class ForestKind(KindOfForests):
    """Trees along which our engine sums gradients; kinds that run trees in another way differ from this one."""

    name = "forest"
    tools: Sequence[Tool] = (Tool(LIBRARY, "less processor time for a byte", FIX, is_package=True),)
    carrier: Carrier[Forest] = ForestCarrier()
    connections: Connections | None = Connections(end_alone=True, are_parallel=True)
    sharing: Sharing[Forest] | None = ForestSharing()
    repair: Repair[Forest] | None = ForestRepair()
    arithmetic = FixedPointArithmetic()
    groups = ForestGroups()
    table: Table[Forest] | None = ForestTable()
    simulation: Simulation[Forest] = ForestSimulation()

    def verify(self, plan: Forest, topology: Topology) -> None:
        verify(plan, topology)

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        if plan.members is not None and asked.is_trained and not plan.members[:, list(plan.workers)].all():
            raise SpecError(
                f"scheme {plan.scheme} sums parts of the gradient among some workers, whose weights would differ",
                fix="play a profile, such as model: alexnet, or leave out members",
            )
        if plan.fixed is None:
            return
        if asked.priority:
            raise own_order(plan, "priority: layer", "switches add")
        if not asked.is_trained:
            _check_scale(plan)
        if asked.largest is not None:
            _check_whole(plan, asked.largest)

    def cost(self, plan: Forest, topology: Topology, gradient_bytes: float) -> Cost:
        return cost(plan, topology, gradient_bytes)

    def releases(self, plan: Forest, topology: Topology, gradient_bytes: float) -> Releases | None:
        return None if (plan.reduce >= 0).sum() > MOST_EDGES else Releases(plan, topology, gradient_bytes)

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        together = np.add if overlap == "none" else np.maximum
        return float(together(pace_s.max(axis=0), cost.bound_s(shaper)).sum())

    def chunk_bytes(self, plan: Forest, gradient_bytes: float, slowest_bps: float) -> int:
        largest_bytes = suiting(slowest_bps)
        return largest_bytes if plan.run_by else shortened(plan, gradient_bytes, largest_bytes)

    def chunks(self, plan: Forest, gradient: Gradient, chunk_bytes: int) -> int:
        table = cut(plan, gradient.floats, gradient.buckets, chunk_bytes)
        edges = (plan.reduce >= 0).sum(axis=1) + (plan.broadcast >= 0).sum(axis=1)
        return int(edges[np.asarray(table.klass)].sum())

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.forest.node")

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.forest.node import join

        return join(job, plan, part, called_off)

    def told(self, plan: Forest, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        return Told(samples)


def own_order(plan: Forest, wanted: str, bound: str) -> SpecError:
    """Make the error about a priority, or a forward pass that begins early, where chunks come in an order of their
    own."""
    return SpecError(
        f"scheme {plan.scheme} takes no {wanted}: {bound} its chunks in an order of their own",
        fix=f"remove {wanted}, or compare it with other schemes in an experiment of its own",
    )


def _check_scale(plan: Forest) -> None:
    """Check the effect of fixed point on a profile's values, which are known beforehand; that on trained values shows
    in trials."""
    assert plan.fixed is not None
    if plan.fixed.scale is None:
        return
    scale, world = plan.fixed.scale, len(plan.workers)
    off = furthest(scale, world, LARGEST)
    if off > MOST_ROUNDED:
        raise SpecError(
            f"scheme {plan.scheme}: scale too coarse: rounding puts sums of {world} values up to {LARGEST} off by up "
            f"to {off:.2g}; {MOST_ROUNDED:g} is allowed",
            fix=f"give it scale={least_scale(world, LARGEST, MOST_ROUNDED):g}",
        )
    if scale * LARGEST >= 2**31:
        raise SpecError(
            f"scheme {plan.scheme}: values up to {LARGEST} times the scale {scale:g} do not fit 32 bits",
            fix="give it a smaller scale, such as 1e6",
        )


def _check_whole(plan: Forest, largest: int) -> None:
    """Check that whole numbers up to ``largest`` come out of fixed point as they went in, once they are rounded
    again."""
    assert plan.fixed is not None
    scale, world = plan.fixed.scale or (2**31 - 1) / (len(plan.workers) * 2 * largest), len(plan.workers)
    if scale * largest >= 2**31:
        raise SpecError(
            f"scheme {plan.scheme}: counts up to {largest:,} times the scale {scale:g} do not fit 32 bits",
            fix="give it scale=1, which is exact for whole numbers",
        )
    if furthest(scale, world, largest) >= HALF:
        raise SpecError(
            f"scheme {plan.scheme}: sums of {world} counts up to {largest:,} are not exact with the scale {scale:g}",
            fix="give it scale=1, which is exact for whole numbers" if plan.fixed.scale else "take a float scheme",
        )


KIND = ForestKind()
