"""The kind of schemes whose workers do not wait for sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from testbed.base.check import About, Check
from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.asynchronous import plan as updates
from testbed.workloads.kinds.asynchronous.notes import NOTES
from testbed.workloads.kinds.asynchronous.plan import Asynchronous
from testbed.workloads.kinds.asynchronous.simulation import UpdatesSimulation
from testbed.workloads.kinds.base import Asked, Expected, Floats, Refusal, Told
from testbed.workloads.kinds.forest.kind import ForestKind
from testbed.workloads.kinds.parts import Carrier, Connections, OwnChecks, OwnSamples, Simulation, Wording
from testbed.workloads.kinds.process import Process, one_each
from testbed.workloads.learning.parts import merged
from testbed.workloads.sync.cost import Cost, Releases, Shaper
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.verify import verify

if TYPE_CHECKING:
    import pandas as pd

    from testbed.workloads.job import WorkerJob
    from testbed.workloads.kinds.measures import Measures
    from testbed.workloads.sync.session import Session
    from testbed.workloads.tasks.base import Participant

STALENESS = About(
    "staleness",
    sees="an update of an asynchronous scheme that is more stale than the scheme allows",
    misses="the order that updates would have on other machines",
)
MOST_EXACT = 2**24
"""Whole numbers up to this are exact in float32."""


class StalenessCheck(OwnChecks[Forest]):
    """The check that no update is more stale than its scheme allows."""

    abouts = (STALENESS,)

    def judge(self, plan: Forest, told: Told, expected: Expected) -> Iterable[Check]:
        from testbed.workloads.kinds.asynchronous import checks

        return checks.judge(plan, told, expected)


class UpdateSamples(OwnSamples):
    """Samples of updates, whose order is the server's."""

    @cached_property
    def measures(self) -> Measures:
        from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures

        return UpdatesMeasures()


class UpdateWording(Wording):
    """Words for updates."""

    def least_gst(self, bound: str, whole: str) -> str:
        return f"{bound} for an update alone, there and back; {whole} for one of each worker"


class AsynchronousKind(ForestKind):
    """A star of workers at each host that only serves; each gradient is an update of its own."""

    name = "asynchronous"
    run_by = Asynchronous
    sums_together = False
    own_checks = StalenessCheck()
    carrier = Carrier("each gradient is an update of its own, and workers get weights, not sums")
    connections = Connections()
    sharing = None
    table = None
    simulation: Simulation[Forest] = UpdatesSimulation()
    own_samples = UpdateSamples(("update", "version", "staleness", "update_*", "version_*"), ("held_s",))
    wording = UpdateWording(NOTES, "a single process that makes the server's updates in their order")

    def verify(self, plan: Forest, topology: Topology) -> None:
        verify(plan, topology)
        updates.check_servers(plan)

    def processes(self, plan: Forest) -> Sequence[Process]:
        servers, chain = updates.servers(plan), updates.replicas(plan).values()
        return one_each(plan, self.pairs(plan), dict.fromkeys(servers, "server") | dict.fromkeys(chain, "replica"))

    def keepers(self, plan: Forest) -> Sequence[int]:
        return updates.servers(plan)

    def pairs(self, plan: Forest) -> list[tuple[int, int]]:
        chain = updates.replicas(plan).items()
        return sorted({*super().pairs(plan), *chain, *((replica, server) for server, replica in chain)})

    def refuse(self, plan: Forest, topology: Topology, asked: Asked) -> None:
        who, fix = (
            f"scheme {plan.scheme} does not wait for sums",
            "or compare it with other schemes in an experiment of its own",
        )
        if asked.overlap != "none":
            problem = f"{who}: it sends gradients only as a whole, so overlap: {asked.overlap} is not possible"
            raise SpecError(problem, fix=f"remove overlap, {fix}")
        if asked.is_trained and asked.mode == "none":
            problem = f"{who}: it computes each gradient on new weights, and compute: none computes only one gradient"
            raise SpecError(problem, fix="give a pace: compute: {mode: paced, ...}")
        if any(node.ina for node in topology.nodes):
            raise SpecError(f"{who}, so switches cannot add for it", fix="leave ina out of this arm's topology")
        most = MOST_EXACT // LARGEST // len(plan.workers)
        if not asked.is_trained and asked.iterations > most:
            problem = f"{who}: its server adds values exactly for at most {most:,} iterations; here are more"
            raise SpecError(problem, fix=f"give at most {most:,} iterations")

    def cannot(self, plan: Forest) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment"
        why = "workers do not wait for a sum, so a synchronisation has no steps"
        steps = Refusal(why, f"{fix}, or write of: iteration")
        moved = Refusal("workers do not wait for a sum, so it is not known which updates meet which circuits", fix)
        return {"steps": steps, "circuits": moved}

    def describe(self, plan: Forest) -> list[tuple[str, str]]:
        bound = updates.staleness(plan)
        whom = "nobody" if bound is None else f"the slowest one when more than {bound} iterations ahead of it"
        names = [plan.nodes[node] for node in updates.servers(plan)]
        parts = [("servers", f"{', '.join(names)}; each has an equal part of the weights")] if len(names) > 1 else []
        chain = [f"{plan.nodes[replica]} of {plan.nodes[server]}" for server, replica in updates.replicas(plan).items()]
        kept = [("replicas", f"{', '.join(chain)}; each has an update before it is applied")] if chain else []
        return [("updates", f"each gradient is one; workers wait for {whom}"), *parts, *kept]

    def cost(self, plan: Forest, topology: Topology, gradient_bytes: float) -> Cost:
        return updates.cost(plan, topology, gradient_bytes)

    def releases(self, plan: Forest, topology: Topology, gradient_bytes: float) -> Releases | None:
        return None

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        """Return a lower bound of JCT (s): each worker is alone with the server, at its average pace, or the busiest
        link never rests."""
        workers, iterations = pace_s.shape
        alone_s = pace_s.mean(axis=1) + cost.bound_s(shaper)
        return float(iterations * max(workers / (1 / alone_s).sum(), cost.round_s() / shaper.goodput))

    def prepare(self) -> None:
        import_module("testbed.workloads.kinds.asynchronous.node")

    def join(self, job: WorkerJob, plan: Forest, part: Participant | None, called_off: Callable[[], None]) -> Session:
        from testbed.workloads.kinds.asynchronous.node import join

        return join(job, plan, part)

    def told(self, plan: Forest, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        from testbed.workloads.kinds.asynchronous import account

        orders = account.orders(plan, done, iterations)
        samples = account.attribute(samples, orders)
        return Told(samples, merged(orders), account.updates_a_round(samples, len(plan.workers), iterations))

    def cost_as_run(self, plan: Forest, topology: Topology, gradient_bytes: float, told: Told) -> Cost | None:
        return updates.cost(plan, topology, gradient_bytes, told.updates)

    def wrote(self, record: Mapping[str, Any]) -> bool:
        return (record.get("metrics") or {}).get("staleness_max") is not None


KIND = AsynchronousKind()
