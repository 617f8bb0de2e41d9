"""Duration of trials: guessed from theory before the first one, then learnt from those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from testbed.analysis.cell import Cell
from testbed.execution.probe_durations import EXPECTED_S
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.kinds.asked import Change

START_S = 2.5
"""Seconds that the first trial of a run takes longer: its lab, its processes and the referee begin
(benchmarks/first_trial.py)."""
OVERHEAD_S = 1.4
"""Seconds of each trial around training: calibrating, starting workers, the burst, checking, writing. Of 200 trials in
the lab netns on two cores, 1.2 to 1.5 s with 3 to 8 hosts, 1.8 s with 48 links."""
TRAINED_S = 0.3
"""Seconds more that models take that are trained."""
PER_LINK_S = 0.01
PER_PROCESS_S = 0.05
"""Seconds for each process beyond ``FEW_PROCESSES``: of trials with 14 to 62 processes, 2.3 to 5.2 s in all."""
FEW_PROCESSES = 8
MOST_PLAYED = 20
"""Cells whose beginning is played for a guess, which takes up to 0.2 s of a core each; others take their least time."""
CHANGES_WITHIN_S = 60.0
"""Changes of links' rates count for a guess as far as they are planned so soon."""
COMMAND_S = 60.0
"""Guess of the time of programs that tell of no iterations."""
SCRIPT_S, RANK_S = 6.0, 3.0
"""Guess of the time of a script that trains for some seconds, and of what each of its ranks adds on two cores, by its
imports of PyTorch for the most part: trials of four ranks took 19 to 20 s, 12 of them before the first iteration."""
UNKNOWN_COMPUTE_S = 0.5
"""Guess of an iteration's computing time where the spec does not set it."""
PLAYED_AGAIN_S = 5e-6
"""Seconds for each message of a later iteration of a simulated trial where all are played: of jobs that share a
network, and where links change. Else iterations alike are played once."""
PLAYED_CALL_S = 5e-5
"""Seconds for each message of a trace that the simulator plays, whose decisions are Python's: 47 us for a ring of 16 on
a busy machine."""


def expected_s(trial: Trial, *, plays: bool = True) -> float:
    """Predict how long (s) a trial takes, as far as that is known before any has run; ``plays`` lets kinds play its
    beginning."""
    job = trial.jobs[0]
    if trial.spec.place.plays and job.kind.simulation.knows(job.plan):
        again_s = PLAYED_AGAIN_S if trial.is_shared or trial.network.perturbations else 0.0
        if job.kind.simulation.is_by_message:
            again_s = job.kind.simulation.message_s
        later_s = ((each, (each.iterations - 1) * again_s) for each in trial.jobs)
        return sum(each.played_messages * (each.kind.simulation.message_s + more_s) for each, more_s in later_s)
    trace = job.workload.traced(trial.network.folder, job.world) if trial.spec.place.plays else None
    if trace is not None:
        sizes = [node.bytes / trace.scale for nodes in trace.ranks.values() for node in nodes if not node.computes]
        return PLAYED_CALL_S * trace.iterations * sum(2 * max(job.world, size / job.chunk_bytes) for size in sizes)
    processes = max(0, len(trial.processes) - FEW_PROCESSES)
    overhead_s = OVERHEAD_S + PER_LINK_S * len(trial.network.topology.links) + PER_PROCESS_S * processes
    probes = {finding.probe for finding in trial.findings.values()} & EXPECTED_S.keys()
    overhead_s += sum(EXPECTED_S[probe](trial.topology) for probe in probes)
    if not job.is_synchronised:
        return overhead_s + (SCRIPT_S + RANK_S * job.world if trial.network.arm.scheme else COMMAND_S)
    changes = planned_changes(trial)
    trained_s = TRAINED_S if any(job.work.is_trained for job in trial.jobs) else 0.0
    return max(job.planned_s + job_s(job, changes, plays=plays) for job in trial.jobs) + overhead_s + trained_s


def job_s(job: Job, changes: Sequence[Change] = (), *, plays: bool = True) -> float:
    """Predict how long (s) a job takes from its beginning: about, if its kind can tell, and else at least, where that
    is known; synchronisations take as much longer as the slowest of the links that they use is slower, on average."""
    likely_s = job.likely_jct_s(changes) if plays else None
    if likely_s is not None:
        return likely_s
    known_s = job.jct_theory_s
    if known_s is None:
        return job.iterations * (UNKNOWN_COMPUTE_S + job.gst_theory_s)
    return known_s + job.iterations * job.gst_theory_s * (_slower(job, changes) - 1)


def planned_changes(trial: Trial) -> list[Change]:
    """The first changes of links' rates that are to happen at moments that are known."""
    found = []
    for stream in trial.schedule().streams:
        for event in stream:
            if event.at.time_s is None or event.at.time_s > CHANGES_WITHIN_S:
                break
            rates = {one.directed_link: float(one.rate_bps) for one in event.links if one.rate_bps is not None}
            if rates:
                found.append(Change(event.at.time_s, rates))
    return sorted(found, key=lambda change: change.at_s)


def _slower(job: Job, changes: Sequence[Change]) -> float:
    """Compute how many times longer the busiest link needs for a synchronisation, on average over the changes."""
    if not changes or not job.cost.link_bytes.any():
        return 1.0
    rates = np.array(job.network.topology.rates_bps)
    bits = 8 * job.cost.link_bytes
    undisturbed_s, times_s = float((bits / rates).max()), []
    for change in changes:
        for link, rate_bps in change.rates_bps.items():
            rates[link] = rate_bps
        times_s.append(float((bits / rates).max()))
    return max(1.0, float(np.mean(times_s)) / undisturbed_s)


class Estimate:
    """A guess that gets better: a trial whose cell has run takes as long as it did, any other as much longer than
    guessed as those that have run did.

    Args:
        most_played: so many cells are played for a guess.
    """

    def __init__(self, most_played: int = MOST_PLAYED) -> None:
        self._most_played = most_played
        self._took: dict[Cell, list[float]] = {}
        self._expected: dict[Cell, float] = {}
        self._guessed_s = self._taken_s = 0.0

    def learn(self, trial: Trial, took_s: float) -> None:
        """Take note of how long a trial took. The first one may take less than ``START_S``, so its start counts for its
        share of the guess at most."""
        guess_s = self._guess_s(trial)
        if not self._took:
            took_s = max(took_s - START_S, took_s * guess_s / (guess_s + START_S))
        self._took.setdefault(trial.cell, []).append(took_s)
        self._guessed_s += guess_s
        self._taken_s += self._took[trial.cell][-1]

    def of(self, trial: Trial) -> float:
        """Predict how long a trial will take (s)."""
        took = self._took.get(trial.cell)
        if took:
            return sum(took) / len(took)
        return self._guess_s(trial) * (self._taken_s / self._guessed_s if self._guessed_s else 1.0)

    def _guess_s(self, trial: Trial) -> float:
        """Without what was learnt."""
        if trial.cell not in self._expected:
            self._expected[trial.cell] = expected_s(trial, plays=len(self._expected) < self._most_played)
        return self._expected[trial.cell]

    def left_s(self, trials: Iterable[Trial]) -> float:
        """Predict how long (s) trials will take one after the other, the start of the first included."""
        start_s = 0.0 if self._took else START_S
        guesses = [self.of(trial) for trial in trials]
        return sum(guesses) + (start_s if guesses else 0.0)
