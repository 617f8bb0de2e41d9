"""Parts of the kind: words, theory, checks, and what its processes survive and report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from testbed.base.check import About, Check
from testbed.workloads.kinds.asked import Demand
from testbed.workloads.kinds.base import Expected, Told
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import (
    Iterations,
    OwnChecks,
    OwnSamples,
    Predictor,
    Reports,
    Simulation,
    Survivor,
    TellLines,
    Unknown,
    Wording,
)

if TYPE_CHECKING:
    from testbed.workloads.kinds.measures import Measures
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.wires import Wires

NOTES = {
    "gst": (
        "If a scheduler plans an arm's transfers, each update has its own GST: the time from a worker's gradient to "
        "newer weights, with all waiting for the update's turn. Theory is the time of an update to the server and of "
        "weights back while no other worker sends."
    ),
    "fates": (
        "If a scheduler plans an arm's transfers, a direct update came straight to the server, and an aggregated one "
        "was added to others on its way. A dropped update was not sent, because it would have been too stale, because "
        "others would have waited for it. A late one was too stale when it came, and was not applied."
    ),
    "accuracy": (
        "If a scheduler plans an arm's transfers, an iteration is a round: as many applied updates, one after the "
        "other, as there are workers. A single process that makes the same updates and sums in the same order finds "
        "their accuracy."
    ),
    "waiting": (
        "If a scheduler plans transfers, a wait is the time for which newer weights were held back, because the worker "
        "was too far ahead, or because no iteration was left to begin."
    ),
    "timeline": (
        "If a scheduler plans transfers, an iteration is a round of as many applied updates as there are workers, and "
        "its GST is the median of theirs."
    ),
    "workers": (
        "Workers whose transfers are scheduled are drawn as waiting for as long as newer weights were held back; their "
        "rows begin and end with the rounds that are drawn."
    ),
    "jct": (
        "If a scheduler plans transfers, synchronisation is the time from a worker's gradients to newer weights, "
        "averaged over the workers. Compute is the rest."
    ),
}
"""Notes in reports on numbers that mean something else than those of other kinds, by the question of the report."""


DIVERGENCE = About(
    "divergence",
    sees="a server whose weights went further from its replica's than the scheme allows",
    misses="how far they were really apart: the bound is computed from the norms of updates, which workers tell",
)


class DivergenceCheck(OwnChecks[Fabric]):
    """The checks of a server that has a replica."""

    abouts = (DIVERGENCE,)

    def judge(self, plan: Fabric, told: Told, expected: Expected) -> Iterable[Check]:
        from testbed.workloads.kinds.fabric import checks

        return checks.judge(plan, told, expected)


class ScheduledSamples(OwnSamples):
    """Samples of updates that are summed on their way, or dropped."""

    @cached_property
    def measures(self) -> Measures:
        from testbed.workloads.kinds.fabric.measures import ScheduledMeasures

        return ScheduledMeasures()


class ScheduledWording(Wording):
    """Words for updates that may be summed."""

    def least_gst(self, bound: str, whole: str) -> str:
        return f"{bound} for an update alone, there and back; {whole} for one of each worker, if none is summed"


class FabricUnknown(Unknown[Fabric]):
    """Facts about processes that schedule."""

    def load(self, plan: Fabric) -> str:
        return "what a scheduler and daemons take of the cores is not measured"


@dataclass(frozen=True)
class FabricPredictor(Predictor[Fabric]):
    """Times of trials as :mod:`.ideal` plays them; ``makes_sums`` says that workers get sums, and not weights."""

    makes_sums: bool

    def likely_jct_s(self, plan: Fabric, demand: Demand) -> float | None:
        from testbed.workloads.kinds.fabric import ideal

        return ideal.likely_jct_s(plan, demand, makes_sums=self.makes_sums)

    def predicted(self, plan: Fabric, demand: Demand) -> Mapping[str, float]:
        from testbed.workloads.kinds.fabric import ideal

        return ideal.predicted(plan, demand, makes_sums=self.makes_sums)


class FabricReports(Reports[Fabric]):
    """Transfers, which the scheduler reports in the end, and steps of a server, which reports them as it goes."""

    def said_bytes(self, plan: Fabric) -> int:
        """Count the bytes with which the scheduler reports the transfers of an update, there and to a replica, and of
        weights."""
        return 1024 * len(plan.servers)

    def journals(self, plan: Fabric) -> Collection[str]:
        """Return the server, where a replica may take over."""
        return () if plan.replica is None else (plan.nodes[plan.server],)


TRANSFER_NOTES = 6
"""Number of notes about a transfer, roughly."""


class FabricSimulation(Simulation[Fabric]):
    """Decisions of a trial that is scheduled, message by message; ``makes_sums`` says that servers make sums."""

    overlaps = ("none",)
    is_by_message = True
    message_s = 6e-5
    """With what the scheduler takes for it: 42 to 110 us with 30 to 128 workers."""

    def __init__(self, *, makes_sums: bool) -> None:
        self._makes_sums = makes_sums

    def knows(self, plan: Fabric) -> bool:
        return True

    def messages(self, plan: Fabric, chunks: tuple[Gradient, int]) -> int:
        """Count notes and pieces of floats of an update and weights of each worker, straight, and of an update for the
        replica."""
        from testbed.workloads.kinds.fabric.played_transfers import FIRST, LAST

        moved = 2 * len(plan.servers) + (plan.replica is not None)
        return moved * (FIRST + LAST + TRANSFER_NOTES) * len(plan.workers)

    def begin(self, plan: Fabric, asked: Iterations, wires: Wires) -> TellLines:
        from testbed.workloads.kinds.fabric.played import Played

        return Played(plan, asked, wires, makes_sums=self._makes_sums).lines


MOST_SAVED_BYTES = 200
"""Limit on the bytes of an update in the JSON of a checkpoint: two shares with up to 24 characters each, its number
twice, the version that it was computed on and the one that it changed, sender and size, and the punctuation around
them."""


class FabricSurvivor(Survivor[Fabric]):
    """Workers, daemons, a scheduler, and a server, which may have a replica. Several servers survive no loss: one of
    them may have a shard of an update that another one never gets."""

    def survives(self, plan: Fabric) -> Collection[str]:
        """Return all processes but the server, where it has no replica; with a replica, the server too, if no other
        process but the replica is lost."""
        if plan.further_servers:
            return ()
        alone = {plan.nodes[plan.server]} if plan.replica is None else set()
        return {process.name for process in plan.processes} - alone

    def returns(self, plan: Fabric) -> Collection[str]:
        """Return the server, where it is the only one and has no replica."""
        if plan.replica is not None or plan.further_servers:
            return ()
        return (plan.nodes[plan.server],)

    def saved_bytes(self, plan: Fabric, iterations: int) -> int:
        """Bound the journal of the server, and the record of what came (:class:`.processes.returned.Saved`)."""
        return MOST_SAVED_BYTES * (1 + iterations * len(plan.workers))
