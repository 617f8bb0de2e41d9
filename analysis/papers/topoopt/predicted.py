"""Predicted iterations against those that run, over all experiments with strategies.

Left out are the arms of figure 15 whose circuits move (:data:`STAYS`): a prediction is for circuits that stay, and what
is unsent at each move is not known before. Left out is what is simulated (figure 12 on 128 servers). Jobs that share a
cluster (figure 14) are all compared. The prediction of a job is of the job alone, and each has links of its own here:
its four hosts are those of a pod, or have a link to a switch each, or circuits with each other only. Jobs with
look-ahead have the network to themselves, in turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, within
from testbed.analysis.papers.evidence import Values, iteration_s, measure
from testbed.analysis.papers.topoopt.compared import CANDLE, CANDLE_D8, DLRM_D4, ITERATIONS, SHARED
from testbed.analysis.papers.topoopt.moving import LOOK_AHEAD, ONESHOT, RECONFIGURED
from testbed.analysis.papers.topoopt.permuted import DLRM, PERMS, PERMS_CANDLE
from testbed.analysis.papers.topoopt.switched import MODELS
from testbed.analysis.recorded import Trial

EXPERIMENTS: tuple[Experiment, ...] = (
    *(DLRM, PERMS, PERMS_CANDLE, CANDLE, CANDLE_D8, DLRM_D4),
    *ITERATIONS.values(),
    *MODELS.values(),
    *(SHARED, RECONFIGURED, LOOK_AHEAD),
)
STAYS: Mapping[str, tuple[str, ...]] = {RECONFIGURED.spec: (ONESHOT,)}
"""Labels of the arms whose circuits stay, of each spec with arms whose circuits move within iterations."""
LOW, HIGH = 0.9, 1.1
COPY = re.compile(r"-\d+$")
"""End of the name of a job's copy."""


def predicted(runs: Runs) -> Finding:
    """A row for each arm with a strategy of each run, or for each of its jobs; copies of a job share one."""
    rows = [
        Row(
            f"predicted over measured, {experiment.spec.removeprefix('topoopt/').removesuffix('.yaml')}: {name}",
            "x",
            ours=measure(runs.get(experiment.spec), labels, _ratios),
        )
        for experiment in EXPERIMENTS
        for name, labels in _arms(runs, experiment).items()
    ]
    rows = rows or [Row("predicted over measured", "x", ours=measure(None, [""], _ratios))]
    return Finding(
        tuple(rows),
        tuple(within(f"{row.name}: {LOW:g} to {HIGH:g}", row, LOW, HIGH) for row in rows),
        (
            "Trials predict AllReduces after all passes, as they run here.",
            "Arms of figure 15 whose circuits move are left out: a prediction is for circuits that stay.",
            "The jobs of figure 14 are predicted alone. Each has links of its own here, in all four networks.",
        ),
    )


def _arms(runs: Runs, experiment: Experiment) -> dict[str, list[str]]:
    """Return, by name, the labels of the arms of a run that have a prediction which applies."""
    run = runs.get(experiment.spec)
    found: dict[str, list[str]] = {}
    for trial in run.trials if run else ():
        applies = trial.label in STAYS.get(experiment.spec, (trial.label,))
        if not (applies and trial.done and trial.metrics.iteration_predicted_s):
            continue
        labels = found.setdefault(COPY.sub("", trial.label) if trial.slot else trial.label, [])
        if trial.label not in labels:
            labels.append(trial.label)
    return found


def _ratios(*trials: Trial) -> Values:
    """Return the ratios of all iterations after the warm-up, of one trial or of copies of a job."""
    return np.concatenate([_ratio(trial) for trial in trials])


def _ratio(trial: Trial) -> Values:
    predicted_s = trial.metrics.iteration_predicted_s
    return (np.nan if predicted_s is None else predicted_s) / iteration_s(trial)
