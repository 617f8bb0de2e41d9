"""The kind of synchronous schemes, whose forests our engine runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from testbed.base.compiled import FIX
from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.base import Asked, KindOfForests, Tool
from testbed.workloads.kinds.parts import Arithmetic, Carrier, Connections, Groups, Repair, Sharing, Simulation, Table
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync.chunk_size import shortened, suiting
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.compiled import LIBRARY
from testbed.workloads.sync.cost import Cost, Releases, cost
from testbed.workloads.sync.fixed_point import furthest, least_scale, sum_error
from testbed.workloads.sync.forest import Forest, placed
from testbed.workloads.sync.messages import Message, messages
from testbed.workloads.sync.verify import verify

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.learning.parts import Span
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


class FixedPointArithmetic(Arithmetic[Forest]):
    """Fixed point where a plan has it; else floats."""

    def rounding(self, plan: Forest) -> float:
        if plan.fixed is None:
            return 0.0
        world = len(plan.workers)
        return furthest(plan.fixed.scale or (2**31 - 1) / (world * 2 * LARGEST), world, LARGEST)

    def scale(self, plan: Forest) -> float | None:
        return None if plan.fixed is None else plan.fixed.scale

    def sum_error(self, plan: Forest, norms: float, floats: int, chunk_bytes: int) -> float:
        return 0.0 if plan.fixed is None else sum_error(plan.fixed, len(plan.workers), norms, floats, chunk_bytes)


class ForestGroups(Groups[Forest]):
    """Members of a plan's classes."""

    def summed(self, plan: Forest, job: WorkerJob) -> Sequence[tuple[Span, Collection[int]]]:
        from testbed.workloads.sync.groups import summed

        if plan.members is None:
            return ()
        return summed(plan, cut(plan, job.buckets[-1][1], job.buckets, job.chunk_bytes))


class ForestRepair(Repair[Forest]):
    """New trees, of schemes that have a function for them (:func:`testbed.workloads.sync.schemes.repair`)."""

    def goes_on(self, plan: Forest) -> bool:
        from testbed.workloads.sync.schemes import repairable  # which imports the schemes of all kinds

        return repairable(plan.scheme)

    def without(self, plan: Forest, topology: Topology, tensor_sizes: Sequence[int], dead: Collection[int]) -> Forest:
        from testbed.workloads.sync.schemes import repair

        return repair(plan.scheme, topology, tensor_sizes, dead)


class ForestSharing(Sharing[Forest]):
    """Trees among some of a network's hosts."""

    def placed(self, plan: Forest, part: Part) -> Forest:
        return placed(plan, part)


class AloneSharing(ForestSharing):
    """Trees of jobs that need a network of their own."""

    among_others = False


class ForestSimulation(Simulation[Forest]):
    """Decisions of our engine."""

    overlaps = ("none", "layer", "both")
    priorities = ("none", "layer")
    is_of_trees = True

    def knows(self, plan: Forest) -> bool:
        return True

    def messages(self, plan: Forest, chunks: tuple[Gradient, int]) -> int:
        return count(plan, chunks)

    def synchronisation(self, plan: Forest, chunks: tuple[Gradient, int]) -> Synchronisation:
        gradient, chunk_bytes = chunks
        return synchronisation(plan, cut(plan, gradient.floats, gradient.buckets, chunk_bytes))


def count(forest: Forest, chunks: tuple[Gradient, int]) -> int:
    """Count the messages of a synchronisation of a gradient in chunks of so many bytes."""
    gradient, chunk_bytes = chunks
    klass = cut(forest, gradient.floats, gradient.buckets, chunk_bytes).klass
    edges = np.count_nonzero(forest.reduce >= 0, axis=1) + np.count_nonzero(forest.broadcast >= 0, axis=1)
    return int(np.bincount(klass, minlength=forest.classes) @ edges)


class ForestTable(Table[Forest]):
    """Messages of our engine. Of a library, those of the forest that it is measured against."""

    def messages(self, plan: Forest, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        return messages(plan, cut(plan, gradient.floats, gradient.buckets, chunk_bytes))


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

    def chunk_bytes(self, plan: Forest, gradient_bytes: float, slowest_bps: float) -> int:
        largest_bytes = suiting(slowest_bps)
        return largest_bytes if plan.run_by else shortened(plan, gradient_bytes, largest_bytes)

    def chunks(self, plan: Forest, gradient: Gradient, chunk_bytes: int) -> int:
        return count(plan, (gradient, chunk_bytes))

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.forest.node")

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.forest.node import join

        return join(job, plan, part, called_off)


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
