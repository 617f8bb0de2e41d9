"""Job of a trial: one group of processes, its plan, its workload, and what follows from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.process_names import of_job
from testbed.perturb.stragglers import Stragglers, draw
from testbed.perturb.strikes import Struck, struck
from testbed.spec.workload.base import Synchronised, Workload
from testbed.topologies.panels import Matching
from testbed.trial.network import Network
from testbed.workloads import kinds
from testbed.workloads.job import Compute, Task
from testbed.workloads.kinds.asked import Change
from testbed.workloads.kinds.base import AnyKind, Demand, Stage
from testbed.workloads.kinds.parts import Scripts
from testbed.workloads.kinds.process import Process, named
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.own.prepared import Prepared
from testbed.workloads.plan import Plan
from testbed.workloads.sync.connection import LAST_PACKET_BYTES
from testbed.workloads.sync.cost import Cost, Shaper


@dataclass(frozen=True)
class Slot:
    """Hosts and times of a job that shares its network with others.

    Attributes:
        scheme: the scheme as the spec has it.
        hosts: the hosts that it has for itself.
        start_s: when it is submitted, after the trial's beginning.
        planned_s: when it begins if every job takes as long as predicted: it may have to wait for hosts.
        after: the jobs that had these hosts before. It begins when all of them have ended.
        circuits: by panel, the circuits that its hosts get for it; None where it takes what is there.
        served_by: hosts of the service that it shares with other jobs; None where it uses none.
    """

    scheme: str
    hosts: tuple[int, ...]
    start_s: float
    planned_s: float
    after: tuple[str, ...] = ()
    circuits: tuple[Matching, ...] | None = None
    served_by: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Job:
    """One job of a trial, checked.

    Attributes:
        name: unlike that of any other job of the trial; empty of one that has none beside it.
        network: the network on which it runs.
        scheme_text: text that rebuilds the plan from the working directory.
        plan: the plan of what moves in it, verified.
        cost: the cost of one synchronisation.
        gradient: what is synchronised.
        workload: what its processes compute.
        batch: the batch size; 0 where the workload has none.
        own: the user's own model and data, where it has one of them.
        slot: where and when it runs, if its network has more jobs than one.
        drawn_for: its workers in the order of numbers if their ranks are others, or in that of the written plan if they
            were found in the trial: what is drawn for a host depends on neither.
    """

    name: str
    network: Network
    scheme_text: str
    plan: Plan
    cost: Cost
    gradient: Gradient
    workload: Workload
    batch: int = 0
    own: Prepared | None = field(default=None, compare=False, repr=False)
    slot: Slot | None = None
    drawn_for: Sequence[int] = ()

    @property
    def own_slot(self) -> Slot:
        """Its slot; that of a job that shares its network with no other is all hosts from the beginning on."""
        network = self.network
        return self.slot or Slot(
            network.arm.scheme or self.plan.scheme, tuple(network.topology.hosts), start_s=0.0, planned_s=0.0
        )

    @property
    def kind(self) -> AnyKind:
        """The kind of its plan, which knows what moves in it."""
        return kinds.of(self.plan)

    @property
    def floats(self) -> int:
        """Length of the gradient."""
        return self.gradient.floats

    @property
    def gradient_bytes(self) -> int:
        """Size of one gradient."""
        return 4 * self.floats

    @cached_property
    def chunk_bytes(self) -> int:
        """The size of the pieces in which the gradient is sent: as asked for, or what suits the links and the plan."""
        if self.workload.chunk_bytes is not None:
            return self.workload.chunk_bytes
        return self.kind.chunk_bytes(self.plan, self.gradient_bytes, self.network.slowest_bps)

    @property
    def played_messages(self) -> int:
        """Number of messages of an iteration, if its kind can be played in simulated time."""
        return self.kind.simulation.messages(self.plan, (self.gradient, self.chunk_bytes))

    @property
    def world(self) -> int:
        """Number of workers."""
        return len(self.plan.workers)

    @property
    def known_work(self) -> Synchronised | None:
        """The work that our workers do; None where its ranks are a program's, which knows by itself how many iterations
        it does."""
        return self.workload if isinstance(self.workload, Synchronised) else None

    @property
    def is_synchronised(self) -> bool:
        """Whether its workers do what the spec says in full."""
        return self.known_work is not None

    @property
    def work(self) -> Synchronised:
        """The work that our workers do."""
        return synchronised(self.workload)

    @property
    def sums_once(self) -> bool:
        """Whether each iteration is computing, and then one sum of all its workers."""
        return self.sums_with("none")

    def sums_with(self, overlap: str) -> bool:
        """Whether each iteration sums what all workers computed, with this overlap."""
        return self.known_work is not None and self.kind.sums_together and self.work.overlap == overlap

    @property
    def scripts(self) -> Scripts[Any] | None:
        """The part of its kind by which testbed's engine carries collectives of scripts; None where others do."""
        part = self.kind.scripts
        return None if part is None or part.library(self.plan) else part

    @property
    def iterations(self) -> int:
        """Number of iterations; 0 where they are the affair of processes that tell of none."""
        return self.known_work.iterations if self.known_work else 0

    @property
    def written_scheme(self) -> str:
        """The scheme as the spec has it; of programs that synchronise by themselves, what their plan says."""
        return self.own_slot.scheme

    @property
    def goes_on(self) -> bool:
        """Whether the others go on when a node dies. With several jobs, a death ends its job, and the others go on."""
        if (repair := self.kind.repair) is None:
            return False
        return repair.goes_on(self.plan) and self.work.is_resumable and self.slot is None

    @cached_property
    def survives(self) -> frozenset[str]:
        """The processes without which the others go on by themselves: none unless that was asked for, by ``failover``
        or by something that is done to the trial. A process that keeps weights is needed where workers cannot go on
        from those of another process."""
        if self.network.spec.failover_s is None and not self.network.perturbations:
            return frozenset()
        survivors = {of_job(self.name, process) for process in self.kind.survivor.survives(self.plan)}
        needed = self.kind.keepers(self.plan) if survivors and not self.work.is_resumable else ()
        return frozenset(process for process in survivors if self.processes[process] not in needed)

    @cached_property
    def returns(self) -> frozenset[str]:
        """The processes that are started again from a checkpoint when they were killed or stood still: none unless that
        was asked for, by ``failover``, a kill or a freeze, the arm has checkpoints on this machine, a single process
        repeats what the job does, and its workers can go on from them. Such checkpoints have more than weights in
        them."""
        network = self.network
        asked = network.spec.failover_s is not None or any(one.kills or one.stops for one in network.perturbations)
        can = network.arm.checkpoint is not None and network.spec.place.is_here and self.work.is_trained
        if not (asked and can and self.work.is_resumable and self.survives):
            return frozenset()
        return frozenset(of_job(self.name, process) for process in self.kind.survivor.returns(self.plan))

    @property
    def knows_bytes(self) -> bool:
        """Whether the plan's bytes are what goes over the wire."""
        return not self.kind.unknown.bytes(self.plan)

    @property
    def training(self) -> Task:
        """The task of each worker; the same for every arm, so that their results can be compared."""
        return self.work.task(
            self.batch, self.network.spec.seed, self.gradient, self.kind.arithmetic.rounding(self.plan)
        )

    @cached_property
    def members(self) -> dict[str, Process]:
        """Its processes, each with its part in this job, by the name of that part."""
        served_by = (self.slot and self.slot.served_by) or ()
        return named((each.on_service(served_by) for each in self.kind.processes(self.plan)), self.name)

    @cached_property
    def processes(self) -> dict[str, int]:
        """The node of each of its processes, by the name of its part in this job. That is the name of the process,
        unless it may serve several jobs."""
        return {part: process.node for part, process in self.members.items()}

    def role(self, process: str) -> str:
        """Say in a word what a process of :attr:`processes` is for."""
        return self.members[process].parts[0].role

    @property
    def workers(self) -> list[str]:
        """Its workers' processes, by rank."""
        return [*self.processes][: self.world]

    @property
    def savers(self) -> list[str]:
        """The workers that save their weights in the end: the first one, or, where that may be lost or has not all of
        them, each."""
        return self.workers if self.survives or self.held is not None else self.workers[:1]

    @property
    def saved_bytes(self) -> int:
        """Size of what the savers save together."""
        return 4 * sum(self.held) if self.held is not None else self.gradient_bytes * len(self.savers)

    @property
    def held(self) -> Sequence[int] | None:
        """Number of weights that each worker saves in the end, by rank, where no worker has all of them; else None."""
        model = self.kind.model_parallel
        return None if model is None else model.held(self.plan)

    @property
    def losing(self) -> Sequence[int]:
        """The ranks that compute a loss in each iteration of a training."""
        model = self.kind.model_parallel
        return range(self.world) if model is None else model.losing(self.plan)

    # How long it takes

    @property
    def compute(self) -> Compute:
        """The way its workers compute, without what slows some of them down."""
        compute = self.work.compute
        return Compute(mode=compute.mode, pace_s=compute.pace_s.get(self.batch, 0.0))

    @property
    def knows_pace(self) -> bool:
        """Whether the time is known for which its workers compute at least."""
        return self.is_synchronised and self.compute.mode != "real"

    @cached_property
    def stragglers(self) -> Stragglers | None:
        """Slowdowns of each worker's computing in each iteration; None if nobody is slowed down."""
        at, order = self.network, self.drawn_for or self.plan.workers
        drawn = draw(at.perturbations, at.topology, order, self.iterations, at.draws_seed, at.folder)
        if drawn is None or order == self.plan.workers:
            return drawn
        rows = [order.index(worker) for worker in self.plan.workers]
        return Stragglers(drawn.factor[rows], drawn.extra_s[rows])

    def struck(self, number: int) -> Struck:
        """Return which iterations of its workers a perturbation of its network makes longer; it must be one of
        computing."""
        at, workers = self.network, self.drawn_for or self.plan.workers
        one = at.perturbations[number]
        return struck(number, one, at.topology, workers, self.iterations, at.draws_seed, at.folder)

    @property
    def checkpoints(self) -> dict[int, float]:
        """Bytes of each checkpoint at most, by node that writes some: the journal of a server that may be started again
        gets longer."""
        asked = self.network.arm.checkpoint
        if asked is None:
            return {}
        if asked.spread is not None:
            return dict.fromkeys(self.plan.workers, self.gradient_bytes * min(1.0, asked.spread / self.world))
        keepers = self.kind.keepers(self.plan)
        arrays = self.training.arrays if self.returns else 1
        more = self.kind.survivor.saved_bytes(self.plan, self.iterations) if self.returns else 0
        return dict.fromkeys(keepers, arrays * self.gradient_bytes / len(keepers) + more)

    @property
    def checkpoint_s(self) -> float:
        """Seconds that a checkpoint takes at its rate; 0 where none are written."""
        asked = self.network.arm.checkpoint
        return (
            max(self.checkpoints.values(), default=0.0) / (asked.rate_bytes_per_s / self.work.scale) if asked else 0.0
        )

    @cached_property
    def pace_s(self) -> NDArray[np.float64]:
        """float64[workers, iterations]: seconds that computing takes at least, after the checkpoint that comes
        before."""
        slow = self.stragglers
        model = self.kind.model_parallel
        paces = np.array((1.0,) * self.world if model is None else model.paces(self.plan))[:, None]
        found: NDArray[np.float64] = np.repeat(paces * self.compute.pace_s, self.iterations, axis=1)
        if slow is not None:
            found = slow.factor * found + slow.extra_s
        asked = self.network.arm.checkpoint
        if asked is not None:
            writers = [rank for rank, node in enumerate(self.plan.workers) if node in self.checkpoints]
            found[writers, asked.every :: asked.every] += self.checkpoint_s
        found.flags.writeable = False  # it is kept
        return found

    @property
    def shaper(self) -> Shaper:
        """Model of shaped links: what they let pass of its synchronisations before their rates count."""
        connections, shaper = self.kind.connections, self.network.shaper
        if connections is None or not (connections.end_alone and self.network.sends_once):
            return shaper
        return shaper.with_last_packet(LAST_PACKET_BYTES)

    @property
    def gst_theory_s(self) -> float:
        """The least time a synchronisation can take at this MTU (s); 0 where nothing is known of it."""
        return self.cost.bound_s(self.shaper)

    @property
    def jct_theory_s(self) -> float | None:
        """The least that the whole job can take (s): of a synchronous scheme, for each iteration the paced computing
        time and the least GST, or, where they overlap, the longer of the two; None where computing time is not known.
        """
        if not self.knows_pace:
            return None
        return self.kind.least_jct_s(self.cost, self.shaper, self.pace_s, self.work.overlap)

    @property
    def planned_s(self) -> float:
        """Seconds from the trial's beginning until it begins, if every job takes as long as predicted."""
        return self.own_slot.planned_s

    def likely_jct_s(self, changes: Sequence[Change] = ()) -> float | None:
        """Return about how long it takes (s); None where nobody knows more than the least time, or not even that."""
        if not self.knows_pace:
            return None
        return self.kind.predictor.likely_jct_s(self.plan, self._demand(changes, {}))

    def _demand(self, changes: Sequence[Change], norms: Mapping[tuple[int, int], float]) -> Demand:
        task, work = self.training, self.work
        return Demand(
            gradient_bytes=self.gradient_bytes,
            iterations=self.iterations,
            warmup=work.warmup,
            pace_s=self.pace_s,
            goodput=self.network.goodput,
            seed=task.seed,
            momentum=float(getattr(task, "momentum", 0.0)),  # some tasks have none
            learning_rate=float(getattr(task, "learning_rate", 1.0)),
            changes=changes,
            norms=norms,
        )

    def predicted(
        self, changes: Sequence[Change] = (), norms: Mapping[tuple[int, int], float] | None = None
    ) -> Mapping[str, float]:
        """Return numbers of the whole job on links that nothing disturbs but changes of their rates, as its kind plays
        it; empty if it does not, or if nobody knows how long computing takes. ``norms`` are those of its updates, if
        they are known."""
        if not self.knows_pace:
            return {}
        demand = self._demand(changes, norms or {})
        found, iteration_s = self.kind.predictor.predicted(self.plan, demand), self.iteration_predicted_s
        return found if iteration_s is None or changes else {**found, "iteration_predicted_s": iteration_s}

    @property
    def iteration_predicted_s(self) -> float | None:
        """The time of an iteration (s), if its kind predicts one; None if workers compute for times of their own."""
        if not self._keeps_pace:
            return None
        network = self.network
        return self.kind.predictor.iteration_s(self.plan, network.topology, self.compute.pace_s, network.goodput)

    @property
    def critical_path(self) -> Sequence[Stage]:
        """Stages that decide the predicted time of an iteration; empty if there is none."""
        if not self._keeps_pace:
            return ()
        network = self.network
        return self.kind.predictor.critical_path(self.plan, network.topology, self.compute.pace_s, network.goodput)

    @property
    def _keeps_pace(self) -> bool:
        """Whether workers compute for times that are known, each in all iterations."""
        return self.knows_pace and self.stragglers is None


def synchronised(workload: Workload) -> Synchronised:
    """Return the work that our workers do; not asked for where they are programs."""
    assert isinstance(workload, Synchronised)
    return workload
