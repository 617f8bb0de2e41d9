"""How long trials take: guessed from theory before the first one, then learnt from those that have ended."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.cell import Cell
from testbed.trial.job import Job
from testbed.trial.model import Trial

START_S = 2.5
"""What the first trial of a run takes longer: its lab, its processes and the referee begin
(benchmarks/first_trial.py)."""
OVERHEAD_S = 1.4
"""Of each trial, around training: calibrating, starting workers, the burst, checking, writing. Of 200 trials in the lab
netns on two cores, 1.2 to 1.5 s with 3 to 8 hosts, 1.8 s with 48 links; that of models that are trained 0.3 s more."""
PER_LINK_S = 0.01
COMMAND_S = 60.0
"""Guess of the time of programs that tell of no iterations."""
UNKNOWN_COMPUTE_S = 0.5
"""Guess of an iteration's computing time where the spec does not set it."""


def expected_s(trial: Trial) -> float:
    """How long a trial takes, as far as that is known before any has run."""
    overhead_s = OVERHEAD_S + PER_LINK_S * len(trial.network.topology.links)
    if not trial.jobs[0].is_synchronised:
        return COMMAND_S + overhead_s
    return max(job.planned_s + job_s(job) for job in trial.jobs) + overhead_s


def job_s(job: Job) -> float:
    """How long a job takes from its beginning: at least, where that is known."""
    known_s = job.jct_theory_s
    return job.iterations * (UNKNOWN_COMPUTE_S + job.gst_theory_s) if known_s is None else known_s


class Estimate:
    """A guess that gets better: a trial whose cell has run takes as long as it did, any other as much longer than
    guessed as those that have run did."""

    def __init__(self) -> None:
        self._took: dict[Cell, list[float]] = {}
        self._guessed_s = self._taken_s = 0.0

    def learn(self, trial: Trial, took_s: float) -> None:
        """Take note of how long a trial took."""
        first = START_S if not self._took else 0.0
        self._took.setdefault(trial.cell, []).append(max(0.0, took_s - first))
        self._guessed_s += expected_s(trial)
        self._taken_s += self._took[trial.cell][-1]

    def of(self, trial: Trial) -> float:
        """How long a trial will take (s)."""
        took = self._took.get(trial.cell)
        if took:
            return sum(took) / len(took)
        return expected_s(trial) * (self._taken_s / self._guessed_s if self._guessed_s else 1.0)

    def left_s(self, trials: Iterable[Trial]) -> float:
        """How long trials will take one after the other, the start of the first included."""
        start_s = 0.0 if self._took else START_S
        guesses = [self.of(trial) for trial in trials]
        return sum(guesses) + (start_s if guesses else 0.0)
