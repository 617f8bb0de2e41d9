"""How near predicted iterations are to those that run, over all experiments with strategies."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.papers.claim import Experiment, Finding, Row, Runs
from analysis.papers.evidence import ITERATION_TIMES, Values, iteration_s, measure
from analysis.papers.judging import within
from analysis.papers.topoopt.compared import CANDLE, CANDLE_D8, DLRM_D4
from analysis.papers.topoopt.degrees import ITERATIONS
from analysis.papers.topoopt.permuted import PERMS, PERMS_CANDLE
from analysis.papers.topoopt.switched import MODELS
from analysis.papers.topoopt.trained import DLRM
from analysis.recorded import Trial

EXPERIMENTS: tuple[Experiment, ...] = (
    *(DLRM, PERMS, PERMS_CANDLE, CANDLE, CANDLE_D8, DLRM_D4),
    *ITERATIONS.values(),
    *MODELS.values(),
)
LOW, HIGH = 0.9, 1.1


def predicted(runs: Runs) -> Finding:
    """A row for each arm with a strategy of each run that there is."""
    rows = [
        Row(
            f"predicted over measured, {experiment.spec.removeprefix('topoopt/').removesuffix('.yaml')}: {arm}",
            "x",
            None,
            None,
            measure(runs.get(experiment.spec), [arm], _ratio, number=ITERATION_TIMES),
        )
        for experiment in EXPERIMENTS
        for arm in _arms(runs, experiment)
    ]
    rows = rows or [
        Row("predicted over measured", "x", None, None, measure(None, [""], _ratio, number=ITERATION_TIMES))
    ]
    return Finding(
        tuple(rows),
        tuple(within(f"{row.name}: {LOW:g} to {HIGH:g}", row, LOW, HIGH) for row in rows),
        ("Trials predict AllReduces after all passes, as they run here.",),
    )


def _arms(runs: Runs, experiment: Experiment) -> list[str]:
    """Labels of the arms of a run that have a prediction."""
    run = runs.get(experiment.spec)
    trials: Any = run.trials if run else ()
    return list(dict.fromkeys(one.label for one in trials if one.done and one.metrics.iteration_predicted_s))


def _ratio(trial: Trial) -> Values:
    predicted_s = trial.metrics.iteration_predicted_s
    return (np.nan if predicted_s is None else predicted_s) / iteration_s(trial)
