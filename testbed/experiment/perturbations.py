"""Checks, before anything is built, that perturbations make sense for a trial, and that servers that an arm kills
although it has checkpoints can be started again from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.lab.base import LinkSettings
from testbed.lab.choice import places
from testbed.perturb import targets
from testbed.perturb.kinds.base import Context, Perturbation
from testbed.perturb.schedule import schedule
from testbed.perturb.stragglers import draw
from testbed.spec import Arm, Spec
from testbed.spec.workload.base import Synchronised
from testbed.topologies.model import Topology
from testbed.trial.job import Job
from testbed.workloads import kinds
from testbed.workloads.plan import Plan


def check(
    arm: Arm,
    spec: Spec,
    topology: Topology,
    plan: Plan,
    folder: Path,
    processes: Mapping[str, int] | None = None,
) -> None:
    """Check perturbations. ``processes`` are those of all jobs with their nodes, where the plan is that of one of
    several.

    Raises:
        SpecError: one names what there is not, cannot happen to this workload or scheme, or would come too late.
    """
    _check_once(arm, spec)
    now, known = topology, processes
    if known is None:
        known = {process.name: process.node for process in kinds.of(plan).processes(plan)}
    for where, one in _placed(arm, spec):
        try:
            if processes is not None:
                _check_shared(one)
            _check_fit(one, spec, plan)
            if (moved := one.moved(now)) is not now:
                now = moved
                kinds.cost(plan, now, 1.0)  # a worker that cannot be reached
            one.step_sigma_s(topology)
            schedule([one], Context(topology, spec.workload.scale, LinkSettings(), spec.place.limits, spec.seed, known))
            if isinstance(spec.workload, Synchronised):
                draw([one], topology, plan.workers, spec.workload.iterations, spec.seed, folder)
        except SpecError as error:
            raise SpecError(f"{where}: {error.problem}", fix=error.fix) from None


def _check_once(arm: Arm, spec: Spec) -> None:
    movers = [(where, one) for where, one in _placed(arm, spec) if one.moves_circuits]
    for where, one in movers:
        if one.reconfiguration and len(movers) > 1:
            problem = f"{where}: reconfigure decides where circuits are, so no other perturbation may move them"
            raise SpecError(problem, fix="keep only one of the perturbations that move circuits")


def _placed(arm: Arm, spec: Spec) -> Iterator[tuple[str, Perturbation]]:
    for owner, perturbations in (("the experiment's", spec.perturb), ("its", arm.perturb)):
        for number, one in enumerate(perturbations):
            yield f"{owner} perturb.{number} ({one.title})", one


def _check_shared(one: Perturbation) -> None:
    """Refuse what several jobs on one network cannot be asked."""
    if one.moves_circuits:
        problem = "circuits would move under several jobs, and a job's packets may then pass hosts of another one"
        raise SpecError(problem, fix="move circuits in an arm of one job")
    if any(moment.iteration is not None for moment in one.moments):
        raise SpecError("each of several jobs has iterations of its own", fix="give a time, such as at: 2 s")


def _check_fit(one: Perturbation, spec: Spec, plan: Plan) -> None:
    work, cannot = spec.workload, kinds.of(plan).cannot(plan)
    if one.reconfiguration:
        _check_holds(spec, plan)
    for effect in sorted(one.effects & cannot.keys()):
        raise cannot[effect].error()
    if "iterations" in cannot and any(moment.iteration is not None for moment in one.moments):
        raise cannot["iterations"].error()
    if not isinstance(work, Synchronised):
        return
    if one.multiplies_computing and work.compute.mode == "none":
        fix = "give a pace: compute: {mode: paced, ...}"
        raise SpecError("compute: none takes no time, so no worker can be slow", fix=fix)
    late = [moment for moment in one.moments if (moment.iteration or 0) > work.iterations]
    if late:
        raise SpecError(f"there is no {late[0]}: the workload has {work.iterations}", fix="give an earlier one")


def _check_holds(spec: Spec, plan: Plan) -> None:
    """Check that processes can tell what they have still to send, and hold it."""
    if kinds.of(plan).gate is None:
        raise SpecError(
            "circuits follow the bytes that processes have not sent yet, and only arms with a strategy report these",
            fix="give the arm a strategy, such as strategy: data",
        )
    if not spec.place.has_sockets:
        able = [name for name, place in places().items() if place.has_sockets]
        raise SpecError(
            f"in the lab {spec.lab} processes have no socket by which they are told to hold what they send",
            fix=f"run it in the lab {' or '.join(able)}",
        )


def check_restarts(job: Job) -> None:
    """
    Raises:
        SpecError: something is killed that writes checkpoints and cannot be started again from them, or others are
            killed besides.
    """
    killed = _killed(job)
    keepers = {process for process in killed if job.processes[process] in {*job.checkpoints} - {*job.plan.workers}}
    if hopeless := keepers - job.returns - job.survives:
        raise SpecError(
            f"perturb kills {min(hopeless)}, which is not started again from its checkpoint: {_why(job)}",
            fix="remove the kill, or the checkpoint",
        )
    others = killed - job.returns
    if killed & job.returns and others:
        raise SpecError(
            f"perturb kills {min(killed & job.returns)}, which is started again from its checkpoint and then needs all "
            f"others, and {min(others)}",
            fix="kill them in two arms",
        )


def _killed(job: Job) -> set[str]:
    """The job's processes that are killed."""
    network = job.network
    names = {name for one in network.perturbations for name in one.kills}
    reached = {one for name in names for one in targets.reached(network.topology, job.processes, name)}
    return reached & job.processes.keys()


def _why(job: Job) -> str:
    """Why nothing of it is started again."""
    if not job.network.spec.place.is_here:
        return f"the lab {job.network.spec.lab} has its checkpoints on another machine"
    if not job.work.is_resumable:
        return f"workers of {job.workload.kind} keep more than weights, which would not match those of a checkpoint"
    if not job.work.is_trained:
        return f"no single process can repeat what a {job.workload.kind} does"
    return f"scheme {job.plan.scheme} has no single server without a replica, with a scheduler that plans anew"
