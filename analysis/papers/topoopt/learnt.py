"""Figure 19: accuracy over time, through patch panels and through switches."""

from __future__ import annotations

import numpy as np
import pandas as pd

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import Values, measure
from testbed.analysis.papers.judging import within
from testbed.analysis.recorded import Trial
from testbed.analysis.report.questions.learning import accuracy_curve

LEARNT = Experiment("topoopt/figure19.yaml", ("workload.iterations=15",), ("repeats=5", "workload.iterations=120"))
TOPOOPT, IDEAL, ONE = "TopoOpt", "ideal", "one interface"
ABOUT = 0.05


def learnt(runs: Runs) -> Finding:
    """Find, for each accuracy that was tested, the time that another network takes to it, over TopoOpt's."""
    run = runs.get(LEARNT.spec)
    ideal, one = (
        Row(f"time to accuracy, {other} over {TOPOOPT}", "x", paper, ours=measure(run, [other, TOPOOPT], _times))
        for other, paper in ((IDEAL, 1.0), (ONE, None))
    )
    return Finding(
        (ideal, one),
        (
            within(
                f"TopoOpt's accuracy grows as fast as with the ideal switch, within {ABOUT:.0%}", ideal, low=1 - ABOUT
            ),
            within("accuracy grows faster than with a switch of one interface's rate", one, low=1.0),
        ),
        (
            "ResNet-8 on digits in place of ResNet-50 on CIFAR10. All arms compute the same weights, but for the order "
            "of sums, so the time to an accuracy is that of its iteration.",
        ),
    )


def _times(other: Trial, topoopt: Trial) -> Values:
    """Compute, for each accuracy that one after another is first reached by both, when the other had it, over when
    TopoOpt had it."""
    curve, ours = _curve(other), _curve(topoopt)
    goals = sorted({*curve["quality"].cummax(), *ours["quality"].cummax()})
    both = [goal for goal in goals if goal <= min(curve["quality"].max(), ours["quality"].max())]
    return np.array([_reached_s(curve, one) / _reached_s(ours, one) for one in both], dtype=np.float64)


def _reached_s(curve: pd.DataFrame, accuracy: float) -> float:
    return float(curve["time_s"][curve["quality"] >= accuracy].iloc[0])


def _curve(trial: Trial) -> pd.DataFrame:
    """Return, by iteration after the warm-up, when it had ended everywhere, and the accuracy of its weights."""
    curve = accuracy_curve(trial)
    return pd.DataFrame(columns=["time_s", "quality"], dtype=float) if curve is None else curve.loc[trial.warmup :]
