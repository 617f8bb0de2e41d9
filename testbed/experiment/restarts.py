"""Servers that an arm kills although it has checkpoints: whether they can be started again from these."""

from __future__ import annotations

from testbed.base.errors import SpecError
from testbed.perturb import targets
from testbed.trial.job import Job


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
