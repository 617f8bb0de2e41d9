"""Processes that are lost: how soon the others go on, and whether their weights can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, Statement, Verdict
from testbed.analysis.papers.evidence import Values, measure
from testbed.analysis.papers.judging import true
from testbed.analysis.recorded import Trial

FAILOVER = Experiment("mlfabric/failover.yaml", (), ("repeats=50",))
LOST = {
    "worker": "worker",
    "daemon": "daemon",
    "scheduler": "scheduler",
    "checkpoint": "server with a checkpoint",
    "server": "server with a replica",
    "replica": "replica",
    "worker-fed": "worker with a replica",
    "daemon-fed": "daemon with a replica",
    "scheduler-fed": "scheduler with a replica",
}
"""Name of what is lost in each arm, by arm."""
FED = ["worker-fed", "daemon-fed", "scheduler-fed"]
"""Arms in which the server feeds its replica after the loss."""
EVERY = 6
"""A checkpoint is written after so many updates."""
WORKERS = 6
MOST_S = 1.0
MOST_APART = 0.2
"""Div_max of the arms with a replica. Roundings may add to it, for server and replica sum other updates together."""


def failover(runs: Runs) -> Finding:
    """Time to the next commit after each loss, and the weights; what ends a trial is not measured."""
    run = runs.get(FAILOVER.spec)

    def rows(name: str, unit: str, values: Callable[[Trial], Values], arms: Iterable[str] = LOST) -> list[Row]:
        return [Row(f"{name}, {LOST[arm]} lost", unit, ours=measure(run, [arm], values)) for arm in arms]

    commits = rows("from notice to commit", "s", recovered_s)
    weights = rows("repeated weights that differ", "", wrong_weights)
    lost = measure(run, ["checkpoint"], lost_updates)
    updates = Row("updates lost with a server that has a checkpoint", "updates", ours=lost)
    most = EVERY + 2 * WORKERS
    apart = measure(run, ["server"], over_explained)
    over = Row("distance to the replica when the server is lost, over what is allowed", "x", ours=apart)
    copies = rows("distance of the replica from the server in the end, over the weights", "", replica_error, FED)
    return Finding(
        (*commits, *weights, updates, over, *copies),
        (
            *(_all(f"{row.name}: at most {MOST_S:g} s, always", row, MOST_S) for row in commits),
            *(_all(f"{row.name}: none, ever", row, 0.0) for row in weights),
            _all(f"{updates.name}: at most {most}, always", updates, most),
            _all(f"{over.name}: at most 1, always", over, 1.0),
            *(_all(f"{row.name}: none, ever", row, 0.0) for row in copies),
        ),
        (
            "The paper has no numbers of losses; the limits are ours. Div_max is 0.2; what is allowed is that, and "
            "1e-4 of the weights for roundings. The replica gets what it lacks from the daemons, so no update is lost.",
            f"With a server all is lost that was decided since its checkpoint, {EVERY} updates at most and a sum that "
            f"came with the last, and what {WORKERS} workers computed on such weights.",
        ),
    )


def _all(says: str, row: Row, most: float) -> Statement:
    """Each of the row's samples is at most so much, and all trials have some."""
    samples = row.ours.samples if row.ours else ()
    if not samples or (row.ours and row.ours.doubts and max(samples) <= most):
        return Statement(says, Verdict.UNDECIDED, row.doubt)
    return true(says, max(samples) <= most, f"{max(samples):.3g} is the most")


def recovered_s(trial: Trial) -> Values:
    """The longest time (s) from notice to commit in a trial; infinite where a loss was not told, or nothing came
    after it."""
    asked = len(trial.events)
    told = [loss.recovered_s for loss in trial.losses if loss.recovered_s is not None]
    return np.array([max(told) if len(told) == asked else np.inf])


def lost_updates(trial: Trial) -> Values:
    """Count the updates that were lost with servers."""
    return np.array([float(sum(len(loss.lost_updates) for loss in trial.losses))])


def over_explained(trial: Trial) -> Values:
    """Compute how far a lost server's weights were from its replica's, over Div_max; infinite if an update was lost for
    good. Nothing if that is not known."""
    apart, rounded = trial.accuracy.takeover_apart, trial.accuracy.takeover_rounded
    lost = trial.metrics.takeover_lost
    if apart is None or lost is None:
        return np.array([])
    return np.array([np.inf if lost else apart / (MOST_APART + (rounded or 0.0))])


def replica_error(trial: Trial) -> Values:
    """Return how far a replica's weights ended from the server's, as a share of these; nothing if nobody told."""
    error = trial.metrics.replica_error
    return np.array([] if error is None else [error])


def wrong_weights(trial: Trial) -> Values:
    """0 if the repeated weights have the same bits, else 1; nothing if they were not repeated."""
    error = trial.accuracy.weights_error
    return np.array([] if error is None else [float(error != 0 or not trial.accuracy.weights_equal)])
