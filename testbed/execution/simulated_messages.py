"""Jobs whose kind decides about each message itself, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from testbed.execution.observed import Lines
from testbed.execution.simulated_job import DONE, hello
from testbed.trial.job import Job
from testbed.trial.job_files import compute_of
from testbed.workloads.kinds.parts import Iterations, TellLines
from testbed.workloads.play.wires import Wires


class Messages:
    """Jobs on wires. Each begins when it is submitted and the jobs that had its hosts have ended.

    Attributes:
        lasted_s: by job, when it began and when its last worker ended (s).
    """

    def __init__(self, jobs: Sequence[Job], wires: Wires, done: Callable[[int], None], lot: int = 0) -> None:
        """Set up; ``done`` is called with how many iterations the foremost job has done, when it has done one more.
        ``lot`` is the number of the draw where workers begin by lot."""
        self._waiting, self._wires, self._done = list(jobs), wires, done
        self._lots = {job.name: [lot, number] for number, job in enumerate(jobs)}
        self._said: dict[str, tuple[Job, float, TellLines]] = {}
        self._most = 0
        """Number of iterations of the foremost job."""
        self._over = set[str]()
        """Names of jobs that have ended."""
        self.lasted_s: Mapping[str, tuple[float, float]] = {}

    def play(self) -> dict[str, Lines]:
        """Play all, and return the lines of each process.

        Raises:
            TrialError: something waits for what never comes.
        """
        self._begin_free()
        self._wires.run()
        lines, lasted_s = dict[str, Lines](), {}
        for job, begun_s, said in self._said.values():
            own = _lines(job, said())
            lines |= own
            lasted_s[job.name] = begun_s, max(line["end"] for name in job.workers for line in own[name][1:-1])
        self.lasted_s = lasted_s
        return lines

    def _begin_free(self) -> None:
        """Begin jobs whose hosts are free, when they are submitted."""
        for job in [job for job in self._waiting if self._over.issuperset(job.own_slot.after)]:
            self._waiting.remove(job)
            self._wires.at(max(self._wires.now_s, job.own_slot.start_s), partial(self._begin, job))

    def _begin(self, job: Job) -> None:
        computes = [compute_of(job, rank) for rank in range(job.world)]
        told = partial(self._told, job)
        late_s = self._late_s(job)
        asked = Iterations(job.floats, job.iterations, computes, told, job.training.seed, late_s)
        self._said[job.name] = job, self._wires.now_s, job.kind.simulation.begin(job.plan, asked, self._wires)

    def _late_s(self, job: Job) -> list[float]:
        """Draw how much later than the first one each worker begins."""
        within_s = job.kind.simulation.begins_within_s
        drawn_s = np.random.default_rng([job.training.seed, *self._lots[job.name]]).uniform(0.0, within_s, job.world)
        late_s: list[float] = (drawn_s - drawn_s.min()).tolist()
        return late_s

    def _told(self, job: Job, iterations: int) -> None:
        if iterations > self._most:
            self._most = iterations
            self._done(iterations)
        if iterations == job.iterations:
            self._over.add(job.name)
            self._begin_free()


def _lines(job: Job, said: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, Lines]:
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    lines: dict[str, Lines] = {}
    for (name, node), process in zip(job.processes.items(), job.kind.processes(job.plan), strict=True):
        *iterations, last = said[process.name]
        lines[name] = [hello(ranks.get(name), node), *map(dict, iterations), {"kind": "done", **DONE, **last}]
    return lines
