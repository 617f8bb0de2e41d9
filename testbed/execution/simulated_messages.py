"""A job whose kind decides about each message itself, in simulated time."""

from __future__ import annotations

from collections.abc import Callable

from testbed.execution.observed import Lines
from testbed.execution.simulated_job import DONE, hello
from testbed.trial.job import Job
from testbed.trial.job_files import compute_of
from testbed.workloads.kinds.parts import Iterations
from testbed.workloads.play.wires import Wires


def play(job: Job, wires: Wires, done: Callable[[int], None]) -> dict[str, Lines]:
    """Play a job's processes, and return the lines of each; ``done`` is called with how many iterations are done."""
    computes = [compute_of(job, rank) for rank in range(job.world)]
    asked = Iterations(job.floats, job.iterations, computes, done, job.training.seed)
    said = job.kind.simulation.play(job.plan, asked, wires)
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    lines: dict[str, Lines] = {}
    for (name, node), process in zip(job.processes.items(), job.kind.processes(job.plan), strict=True):
        *iterations, last = said[process.name]
        lines[name] = [hello(ranks.get(name), node), *map(dict, iterations), {"kind": "done", **DONE, **last}]
    return lines
