"""From a spec to its trials, with everything that can be checked before anything is built."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError, create_model

from testbed.base.errors import SpecError
from testbed.base.groups import Group
from testbed.base.units import time_text
from testbed.execution.launched import check_program as check_program
from testbed.experiment import naming
from testbed.experiment.built import Built, asked_of_links
from testbed.experiment.order import Block, blocks, in_order
from testbed.experiment.ordering import ordered
from testbed.experiment.perturbations import check as check_perturbations
from testbed.experiment.perturbations import check_restarts
from testbed.experiment.placing import check_memory, placed
from testbed.experiment.shared import Service, planned
from testbed.spec import Arm, Source, Spec
from testbed.spec.explain import explain, together
from testbed.spec.grid import PlannedCell, at_point, point_text
from testbed.spec.jobs import SERVICE, JobKeys, singly
from testbed.spec.workload.base import Synchronised
from testbed.spec.workload.launchers import check_meets, without_launcher
from testbed.topologies.call import parse
from testbed.topologies.load import placed_in
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.trial.inputs import Digests, Inputs
from testbed.trial.job import Job, synchronised
from testbed.trial.job_files import burst_s
from testbed.trial.model import Trial
from testbed.trial.network import Network
from testbed.trial.packages import Packages
from testbed.workloads import kinds
from testbed.workloads.kinds.base import Asked
from testbed.workloads.kinds.process import merged
from testbed.workloads.learning.buckets import Gradient, gradient
from testbed.workloads.own.prepared import OwnError, Prepared
from testbed.workloads.plan import Plan

_T = TypeVar("_T")
_G = TypeVar("_G", bound=Group)
MOST_SAMPLES = 4_000_000
"""A thousand hosts and four thousand iterations; all are held in memory at once."""
MOST_NETWORKS = 1000
"""All are built and verified before the first trial runs."""


def trials(source: Source) -> list[Trial]:
    """Every trial that an experiment has in any case, in the order in which they run (:mod:`testbed.experiment.order`).

    Raises:
        SpecError: an arm cannot be; every arm's mistake is listed.
    """
    assert not source.sought, "testbed.experiment.finding finds it first"
    return in_rounds(blocks(first_trials(source)), source.spec.least_repeats)


def in_rounds(groups: Sequence[Block[Trial]], count: int) -> list[Trial]:
    """The first ``count`` rounds of the cells that have these first trials."""
    return [replace(first, repeat=number) for number in range(count) for first in in_order(groups, number)]


def first_trials(source: Source) -> list[Trial]:
    """The first trial of every cell, in the spec's order.

    Raises:
        SpecError: an arm cannot be; every arm's mistake is listed.
    """
    assert not source.wants_fit, "testbed.experiment.fit.fit finds the scale first"
    assert not source.wants_pace, "testbed.experiment.fit.fit_pace finds the paces first"
    return naming.distinct(_Cells(source).made())


def gradient_of(work: Synchronised, own: Prepared | None = None) -> Gradient:
    """Return what is synchronised: the tensors and buckets of a workload's model, or of the user's ``own`` one.

    Raises:
        SpecError: no such model.
    """
    return gradient(own.sizes() if own else work.layers(), work.scale, work.overlap != "none", work.bucket_bytes)


def _topology(arm: Arm, spec: Spec, folder: Path, built: Built) -> tuple[str, Topology]:
    """An arm's network, and the expression that builds it from the working directory."""
    text = locate(arm.topology, folder)
    topology = built.topology(text, spec)
    for rate_bps in {link.rate_bps for link in topology.links}:
        try:
            spec.place.limits.check_rate(rate_bps)
        except SpecError as error:
            raise SpecError(f"{arm.topology}: a link of {error.problem}", fix=error.fix) from None
    return text, topology


def network_of(arm: Arm, spec: Spec, folder: Path, built: Built) -> Network:
    """Build an arm's network.

    Raises:
        SpecError: the topology cannot be.
    """
    topology_text, topology = _topology(arm, spec, folder, built)
    return Network(arm, spec, folder, topology_text, topology)


def job(cell: PlannedCell, sent: Gradient | None, own: Prepared | None, folder: Path, built: Built) -> Job:
    """Build and check the network and the job of a cell; ``sent`` is what is synchronised, None where processes of
    which nothing is known synchronise by themselves; ``own`` is what was prepared for workers.

    Raises:
        SpecError: the topology cannot be, the scheme cannot use it, or its plan is wrong.
    """
    arm, spec = cell.arm, cell.spec
    network = network_of(arm, spec, folder, built)
    topology = network.topology
    part = ordered(arm, topology, knows_bytes=sent is not None)
    if sent is None:
        if arm.checkpoint:
            raise SpecError(f"a {spec.workload.kind} writes its own checkpoints", fix="remove checkpoint")
        if arm.strategy is not None:
            raise SpecError(f"a {spec.workload.kind} has no operators to place", fix="remove strategy")
        scheme_text, plan = _of_program(network, part, folder, built)
        check_perturbations(arm, spec, topology, plan, folder)
        least = kinds.cost(plan, topology, 0.0)
        return Job("", network, scheme_text, plan, least, NOTHING, spec.workload)
    scheme_text, work = locate(arm.scheme, folder), synchronised(spec.workload)
    _check_samples(arm, topology, work.iterations)
    if arm.strategy is None:
        plan, least = built.plan(scheme_text, network.topology_text, spec, sent, part)
    else:
        sent, plan, least = placed(scheme_text, topology, work.operators(cell.batch, arm.parts), arm.strategy)
    by_number = tuple(sorted(plan.workers)) if part else ()  # what is drawn for a host does not depend on its rank
    found = Job("", network, scheme_text, plan, least, sent, work, drawn_for=by_number)
    _check_plan(found, own)
    check_perturbations(arm, spec, topology, plan, folder)
    _check_checkpoint(found)
    check_restarts(found)
    return found


def _check_size(cell: PlannedCell, job: Job) -> None:
    """
    Raises:
        SpecError: iterations take longer than is waited for, or hosts hold more than fits.
    """
    if job.is_synchronised:
        _check_timeout(job)
    if cell.arm.strategy is not None:
        check_memory(cell.arm, job.work, cell.batch, job.network.topology.host_count, cell.arm.strategy)


def _of_program(network: Network, part: Part | None, folder: Path, built: Built) -> tuple[str, Plan]:
    """The plan of a program's ranks, and the expression that builds it: the scheme's, or their own.

    Raises:
        SpecError: the scheme, or the topology, is not for ranks of a program.
    """
    arm, spec, topology, program = network.arm, network.spec, network.topology, network.spec.workload.program
    assert program is not None
    if not arm.scheme:
        alone = kinds.named(spec.workload.brings).program
        assert alone is not None  # or the workload would bring no kind
        own: Plan = kinds.placed(alone.own_plan(part.topology), part) if part else alone.own_plan(topology)
        check_meets(program.words, len(own.workers))
        return own.scheme, own
    scheme_text = locate(arm.scheme, folder)
    scheme, _ = built.plan(scheme_text, network.topology_text, spec, ANY, part)
    plan: Plan = kinds.of(scheme).carrier.for_scripts(scheme, topology)
    _check_several(plan, arm)
    _check_connections(plan, topology)
    started = without_launcher(program.words, len(plan.workers))
    spec.workload.check_ranks(folder, len(plan.workers))
    check_program(started.words, folder, is_here=spec.place.is_here)
    return scheme_text, plan


def _check_python(spec: Spec, python: str | None) -> None:
    """
    Raises:
        SpecError: the program has a Python of this machine, and the lab's hosts have others.
    """
    if python and not spec.place.has_programs:
        raise SpecError(
            f"{python} is a Python of this machine, and hosts of the lab {spec.place.name} have their own",
            fix="leave python out, and install on the hosts what the script imports; or use a lab whose hosts have the "
            "programs of this machine",
        )


def _check_plan(job: Job, own: Prepared | None) -> None:
    """
    Raises:
        SpecError: what a job's plan does makes no sense for what its workers do.
    """
    network, plan, work = job.network, job.plan, job.work
    _check_several(plan, network.arm)
    work.refuse(own, len(plan.workers))
    job.kind.refuse(plan, network.topology, _asked(network.spec, work, own))
    _check_connections(plan, network.topology)
    job.kind.chunks(plan, job.gradient, job.chunk_bytes)  # refused where some have nothing


def _check_several(plan: Plan, arm: Arm) -> None:
    if len(plan.workers) == 1:
        where = "it" if arm.jobs else arm.topology
        raise SpecError(f"{where} has only one worker; synchronisation needs two", fix="give it two hosts")


Brought = Callable[[Synchronised], tuple[Gradient, Prepared | None]]
"""Function that makes what workers synchronise, and what is prepared for them."""


def jobs(cell: PlannedCell, bring: Brought, folder: Path, built: Built) -> tuple[Job, ...]:
    """Build and check the network of a cell, and the jobs that share it.

    Raises:
        SpecError: the topology cannot be; a job cannot be; or jobs get into each other's way.
    """
    arm, spec = cell.arm, cell.spec
    network = network_of(arm, spec, folder, built)

    service = _service(arm.service, network, built) if arm.service else None

    def made(asked: JobKeys, part: Part) -> Job:
        of_job = replace(network, topology=part.whole)  # which may have other circuits
        written = service.text if service and asked.scheme == SERVICE else asked.scheme
        scheme_text, work = locate(written, folder), synchronised(spec.workload_of(asked))
        _check_samples(arm, network.topology, work.iterations)
        sent, own = bring(work)
        batch = asked.batch or cell.batch
        if asked.strategy is None:
            plan, least = built.plan(scheme_text, network.topology_text, spec, sent, part)
            kinds.check_among_others(plan)
        else:
            check_memory(arm, work, batch, part.topology.host_count, asked.strategy)
            operators = work.operators(batch, 1)
            sent, plan, least = placed(scheme_text, part.whole, operators, asked.strategy, part)
        found = Job(asked.name, of_job, scheme_text, plan, least, sent, work, batch, own)
        _check_plan(found, own)
        return found

    found = planned(arm.jobs, network.topology, made, service)
    processes = {name: process.node for name, process in merged(job.members for job in found).items()}
    for one in found:
        check_perturbations(arm, spec, one.network.topology, one.plan, folder, processes)
        _check_timeout(one)
    return found


def _service(text: str, network: Network, built: Built) -> Service:
    """Return the service of an arm's jobs, written as ``text``.

    Raises:
        SpecError: the scheme cannot be, or has no host that can serve several jobs.
    """
    spec, topology = network.spec, network.topology
    try:
        plan, _ = built.plan(locate(text, network.folder), network.topology_text, spec, ANY)
    except SpecError as error:
        raise SpecError(f"service {text}: {error.problem}", fix=error.fix) from None
    sharing, hosts = kinds.of(plan).sharing, tuple(host for host in topology.hosts if host not in plan.workers)
    if sharing is None or not sharing.server or not hosts:
        why = "puts a worker on every host, so none is left to serve jobs" if not hosts else "can serve one job only"
        raise SpecError(f"service {text} {why}", fix="give service: pbox, whose last host serves all jobs")
    return Service(text, sharing.server, hosts)


PARALLEL = "circuits or routes", "join two servers by one circuit: give each ring once, and no routes to interfaces"
BY_NIC = "NICs", "leave out routing=every_nic"


def _check_connections(plan: Plan, topology: Topology) -> None:
    """Refuse parallel circuits, routes and NICs, all but one of which would be dark, where processes have one
    connection with a neighbour."""
    kind = kinds.of(plan)
    if kind.connections is not None and kind.connections.are_parallel:
        return
    for pair in kind.pairs(plan):
        if len(topology.connections(*pair)) > 1:
            a, b = (topology.nodes[node].name for node in pair)
            what, fix = PARALLEL if topology.panels else BY_NIC
            raise SpecError(
                f"scheme {plan.scheme} has one connection between {a} and {b}, and {topology.expression} has several "
                f"{what} there, so all but one would be dark",
                fix=fix,
            )


ANY = Gradient((1,), (range(1),), ((0, 1),))
"""Gradient that a scheme's trees are built for where arrays of any size come."""
NOTHING = Gradient((), (), ())
"""Gradient that is synchronised where nobody knows it."""


def _asked(spec: Spec, work: Synchronised, own: Prepared | None) -> Asked:
    """Return the settings that a kind of trial may refuse."""
    return Asked(
        overlap=work.overlap,
        priority=work.priority == "layer",
        mode=work.compute.mode,
        iterations=work.iterations,
        is_trained=work.is_trained,
        has_agent=spec.place.has_agent,
        lab=spec.lab,
        largest=work.largest(own),
        optimiser=getattr(work, "optimiser", "sgd"),
    )


def _check_samples(arm: Arm, topology: Topology, iterations: int) -> None:
    samples = topology.host_count * iterations
    if samples > MOST_SAMPLES:
        raise SpecError(
            f"{arm.topology}: {topology.host_count:,} hosts and {iterations:,} iterations give {samples:,} samples",
            fix=f"give fewer iterations: a trial has at most {MOST_SAMPLES:,} samples, one a host and iteration",
        )


def _check_checkpoint(job: Job) -> None:
    asked, plan = job.network.arm.checkpoint, job.plan
    if asked is None:
        return
    keepers, fix = job.kind.keepers(plan), "remove checkpoint"
    if job.held is not None:
        raise SpecError("under a strategy no worker has all weights, so none can write a checkpoint", fix=fix)
    if not keepers:
        raise SpecError(f"scheme {plan.scheme} cannot write a checkpoint", fix=fix)
    if job.goes_on:
        raise SpecError(f"scheme {plan.scheme} goes on when a node dies, and takes no checkpoint", fix=fix)
    silence_s = job.network.spec.silence_s
    if job.survives and job.checkpoint_s >= silence_s:
        problem = (
            f"scheme {plan.scheme} writes a checkpoint for {time_text(job.checkpoint_s)}, and is lost to the others "
            f"when it is silent for {time_text(silence_s)}"
        )
        raise SpecError(problem, fix="give a longer failover, or remove checkpoint")
    if job.work.overlap == "both":
        problem = "overlap: both begins the next forward pass before a checkpoint can be written"
        raise SpecError(problem, fix="write overlap: layer, or remove checkpoint")
    if asked.spread is not None and not job.kind.sums_together:
        problem = f"scheme {plan.scheme}: workers have weights of different versions, so they have no spread to write"
        raise SpecError(problem, fix="remove spread: its servers write")
    if asked.spread is not None and asked.spread > job.world:
        problem = f"a checkpoint with a spread of {asked.spread} for {job.world} workers"
        raise SpecError(problem, fix=f"give spread 1 to {job.world}: each float is written by so many workers")


def _checkpoints_s(job: Job) -> float:
    """Return for how long (s) checkpoints may keep a worker waiting in an iteration: where nobody waits for a sum,
    servers write between the updates of all."""
    asked = job.network.arm.checkpoint
    if asked is None or job.kind.sums_together:
        return job.checkpoint_s
    return math.ceil(job.world / asked.every) * job.checkpoint_s


def _check_survivor(found: Sequence[Trial]) -> None:
    """
    Raises:
        SpecError: no arm at any point goes on when a node dies.
    """
    if not any(trial.goes_on or trial.survives for trial in found):
        problem = "no arm has a scheme that goes on when a node dies"
        raise SpecError(problem, fix="remove it, or add an arm with scheme: rina, or mlfabric_a with one server")


def _check_timeout(job: Job) -> None:
    """A worker writes something at the end of each iteration, which must come before it is taken for one that hangs."""
    network, spec = job.network, job.network.spec
    slowest = max((one.most_slowdown for one in network.perturbations), default=1.0)
    pace_s = max(job.work.compute.pace_s.values(), default=0.0)
    least_s = job.gst_theory_s + slowest * pace_s + _checkpoints_s(job)
    if least_s >= spec.timeout_s:
        raise SpecError(
            f"the timeout of {time_text(spec.timeout_s)} is shorter than an iteration, which takes at least "
            f"{time_text(least_s)}",
            fix="give a longer timeout, or faster links",
        )
    measuring_s = 0.0 if spec.place.plays else burst_s(network.topology)  # simulated links are not measured
    if measuring_s >= spec.timeout_s:
        raise SpecError(
            f"the timeout of {time_text(spec.timeout_s)} is too short for the burst that measures links: it takes "
            f"{time_text(math.ceil(measuring_s))} on {network.arm.topology}",
            fix="give a longer timeout, or faster links",
        )
    if job.goes_on and least_s >= spec.silence_s:
        raise SpecError(
            f"the failover time of {time_text(spec.silence_s)} is shorter than an iteration ({time_text(least_s)} at "
            "least), so live nodes would be taken for dead",
            fix="give a longer failover, or faster links",
        )


def locate(expression: str, folder: Path) -> str:
    """``expression`` with the path of a user's own file, if it names one, taken from ``folder``."""
    call = parse(expression, "ring")
    name = placed_in(folder, call.name)
    return expression if name == call.name else str(replace(call, name=name))


class _Cells:
    """Makes the trial of each cell of a grid, and gathers what is wrong with them."""

    def __init__(self, source: Source) -> None:
        self._source, self._built, self._inputs = source, Built(), Inputs(source.folder)
        self._packages = Packages()
        self._gradients: dict[Hashable, Gradient] = {}
        self._jobs: dict[Hashable, Job | None] = {}
        self._own: dict[Hashable, Prepared] = {}
        self._problems: dict[str, list[tuple[str, str, SpecError]]] = {}
        self._asked: Counter[str] = Counter()

    def made(self) -> list[Trial]:
        """
        Raises:
            SpecError: one cannot be; what is wrong at many points is said once.
        """
        self._check_count()
        found = []
        for _, group in groupby(self._source.grid.cells, key=lambda cell: id(cell.spec)):
            found += self._at_one_point(list(group))
        if not self._problems and self._source.grid.cells[0].spec.failover_s is not None:
            self._said("failover", "", partial(_check_survivor, found))
        if self._problems:
            raise together([self._told(noted) for noted in self._problems.values()])
        return found

    def _at_one_point(self, group: Sequence[PlannedCell]) -> list[Trial]:
        """The trials of cells that share a spec."""
        spec, at = group[0].spec, point_text(self._shared(group))
        before = len(self._problems)
        for key, rate_bps in spec.rates_bps(group[0].arm).items():
            self._said(key, at, partial(spec.place.limits.check_rate, round(rate_bps / spec.workload.scale)))
        folder, program, sent, own = self._source.folder, spec.workload.program, None, None
        if program:
            self._said("workload.python", at, partial(_check_python, spec, program.python))
            if not all(cell.arm.scheme for cell in group):  # or a launcher is left out, which need not be installed
                is_here = spec.place.is_here
                self._said("workload.command", at, partial(check_program, program.words, folder, is_here=is_here))
            if self._said(program.inputs_key, at, partial(self._inputs.of_program, program)) is None:
                return []
        else:
            work = synchronised(spec.workload)
            self._said("workload.dataset", at, work.check)
            if len(self._problems) == before and work.needs(spec.seed) is not None:
                own = self._said("workload.model", at, partial(self._prepared, spec, work))
            if len(self._problems) == before:
                sent = self._said("workload.model", at, partial(self._sent, work, own))
            if sent is None:
                return []
        make = partial(job, sent=sent, own=own, folder=folder, built=self._built)
        made = [(cell, self._jobs_of(cell) if cell.arm.jobs else self._alone(cell, make, own)) for cell in group]
        found = [
            _trial(cell, network_of(cell.arm, cell.spec, folder, self._built), some, self._inputs.of(spec, cell.arm))
            for cell, some in made
            if some
        ]
        return [replace(trial, inputs={**trial.inputs, **self._packages.of(trial)}) for trial in found]

    def _alone(self, cell: PlannedCell, make: Callable[[PlannedCell], Job], own: Prepared | None) -> tuple[Job, ...]:
        """The one job of a cell; none if it cannot be."""
        found = self._job(cell, make)
        if found is None:
            return ()
        if cell.number not in self._source.sought:  # what stands for a strategy takes other times and memory
            self._said(f"arms.{cell.number}", cell.at, partial(_check_size, cell, found))
        return (replace(found, batch=cell.batch, own=own),)

    def _jobs_of(self, cell: PlannedCell) -> tuple[Job, ...]:
        """The jobs that share a cell's network; none if one cannot be."""

        def bring(work: Synchronised) -> tuple[Gradient, Prepared | None]:
            work.check()
            own = self._prepared(cell.spec, work) if work.needs(cell.spec.seed) is not None else None
            return self._sent(work, own), own

        make = partial(jobs, cell, bring, self._source.folder, self._built)
        return self._said(f"arms.{cell.number}.jobs", cell.at, make) or ()

    def _job(self, cell: PlannedCell, make: Callable[[PlannedCell], Job]) -> Job | None:
        """The job of a cell without its batch, the same for all its batches unless outputs are sent, too."""
        key = (id(cell.spec), cell.number, cell.at, cell.batch if cell.arm.strategy else 0)
        if key not in self._jobs:
            self._jobs[key] = self._said(f"arms.{cell.number}", cell.at, partial(make, cell))
        return self._jobs[key]

    def _prepared(self, spec: Spec, work: Synchronised) -> Prepared:
        """The files that workers need, made once."""
        key = work.needs(spec.seed)
        if key not in self._own:
            self._own[key] = work.prepare(self._source.folder, spec.seed)
        return self._own[key]

    def _sent(self, work: Synchronised, own: Prepared | None) -> Gradient:
        key = (work.kind, work.model, work.scale, work.overlap != "none", work.bucket_bytes, own and own.digest)
        if key not in self._gradients:
            self._gradients[key] = gradient_of(work, own)
        return self._gradients[key]

    def _shared(self, group: Sequence[PlannedCell]) -> dict[str, str]:
        """Return what the point has in common in all arms: what is swept outside of them."""
        outside = {axis.name for axis in self._source.grid.axes if axis.arm is None}
        return {name: value for name, value in group[0].written.items() if name in outside}

    def _said(self, where: str, at: str, make: Callable[[], _T]) -> _T | None:
        """Return what ``make`` returns; note its error with the place in the spec that it is about, and the point."""
        self._asked[where] += 1
        try:
            return make()
        except SpecError as error:
            place = f"workload.{error.key}" if isinstance(error, OwnError) else where
            told = SpecError(f"{self._source.name}: {place}: {error.problem}", fix=error.fix)
            self._problems.setdefault(told.problem, []).append((where, at, told))
            return None

    def _told(self, noted: Sequence[tuple[str, str, SpecError]]) -> SpecError:
        """The error of a mistake; one that is made at some points only says at which first."""
        where, at, error = noted[0]
        return at_point(error, at) if len(noted) < self._asked[where] else error

    def _check_count(self) -> None:
        """
        Raises:
            SpecError: there are more networks than anybody wants to wait for.
        """
        different = {
            (cell.arm.topology, scheme, asked_of_links(cell.spec))
            for cell in self._source.grid.cells
            for scheme in cell.arm.schemes or [""]
        }
        if len(different) > MOST_NETWORKS:
            raise SpecError(
                f"{self._source.name}: {len(different):,} different networks; at most {MOST_NETWORKS:,} are allowed, "
                "because all are built and verified before the first trial",
                fix="give fewer values, leave some out with where, or make several experiments of it",
            )


def _trial(cell: PlannedCell, network: Network, some: tuple[Job, ...], inputs: Digests) -> Trial:
    first, *_ = some
    name = naming.name(cell, "jobs" if cell.arm.jobs else first.scheme_text)
    inputs = {**inputs, **{name: digest for one in some if one.own for name, digest in one.own.inputs.items()}}
    return Trial(name, network, some, point=cell.point, at=cell.at, inputs=inputs, expand=with_found)


def with_found(trial: Trial, found: Mapping[str, Mapping[str, Any]]) -> Trial:
    """Return a trial with plain settings in place of what it left to be found, by job: all is checked as if the spec
    had them.

    Raises:
        SpecError: the arm or a job cannot have such a setting, or the jobs cannot be.
    """
    arm, spec, folder, built = trial.network.arm, trial.spec, trial.network.folder, Built()
    if arm.jobs:
        hosts = {job.name: [trial.topology.nodes[host].name for host in job.own_slot.hosts] for job in trial.jobs}
        own = [_with(keys, {"hosts": hosts[keys.name], **found.get(keys.name, {})}) for keys in singly(arm.jobs)]
        settings: Mapping[str, Any] = {"jobs": own}
    else:
        settings = found[""]
    label = arm.title  # as planned: of the settings as written
    arm = _with(arm, settings).model_copy(update={"label": label})
    cell = PlannedCell(spec, arm, 0, trial.batch, trial.point, {}, arm.label)
    if arm.jobs:

        def bring(work: Synchronised) -> tuple[Gradient, Prepared | None]:
            return next((job.gradient, job.own) for job in trial.jobs if job.workload == work)

        made = jobs(cell, bring, folder, built)
    else:
        sent = trial.job.gradient if trial.job.floats else None
        made = (replace(job(cell, sent, trial.job.own, folder, built), batch=trial.batch, own=trial.job.own),)
        _check_size(cell, made[0])
    some = [_drawn_as(planned, ran) for planned, ran in zip(trial.jobs, made, strict=True)]
    return replace(trial, network=replace(trial.network, arm=arm), jobs=tuple(some))


def _drawn_as(planned: Job, ran: Job) -> Job:
    """Return the job that runs with what was drawn for each host of the planned one, if both have the same workers."""
    same = set(planned.plan.workers) == set(ran.plan.workers)
    return replace(ran, drawn_for=planned.plan.workers) if same else ran


def _with(keys: _G, settings: Mapping[str, Any]) -> _G:
    """Return the group with these values, by key, checked as if each stood in a spec.

    Raises:
        SpecError: there is no such key, or it cannot have such a value.
    """
    group = type(keys)
    known = {field.alias or name: (name, field) for name, field in group.model_fields.items()}
    if unknown := settings.keys() - known.keys():
        raise SpecError(f"{min(unknown)} is no setting of {group.__name__}", fix="return keys such as scheme")
    some = {name: (field.annotation, field) for key, (name, field) in known.items() if key in settings}
    try:
        checked = create_model("Found", __base__=Group, **some).model_validate(dict(settings))  # type: ignore[call-overload]
    except ValidationError as error:
        raise together(explain(error, "found", root=group)) from None
    return keys.model_copy(update={name: getattr(checked, name) for name in some})
