"""Figure 18: training through patch panels against training through a switch that is as fast as all interfaces."""

from __future__ import annotations

from analysis.papers.claim import Experiment, Finding, Row, Runs
from analysis.papers.evidence import ITERATION_TIMES, measure, speed_up
from analysis.papers.judging import within

QUICK = ("workload.iterations=4",)
FULL = ("repeats=5", "workload.iterations=20")
MODELS = {
    "ResNet-50": Experiment("topoopt/figure18_resnet50.yaml", QUICK, FULL, ITERATION_TIMES),
    "BERT": Experiment("topoopt/figure18_bert.yaml", QUICK, FULL, ITERATION_TIMES),
    "CANDLE": Experiment("topoopt/figure18_candle.yaml", QUICK, FULL, ITERATION_TIMES),
}
TOPOOPT, IDEAL, ONE = "TopoOpt", "ideal", "one interface"
ABOUT = 0.05
"""What is taken for "similar": the figure's values are lost."""


def switched(runs: Runs) -> Finding:
    """Throughput over the ideal switch's, and over that of a switch as fast as one interface."""
    rows, checks = [], []
    for model, experiment in MODELS.items():
        run = runs.get(experiment.spec)
        ideal, one = (
            Row(
                f"{model}: {TOPOOPT} over {other}",
                "x",
                paper,
                None,
                measure(run, [other, TOPOOPT], speed_up, number=ITERATION_TIMES),
            )
            for other, paper in ((IDEAL, 1.0), (ONE, None))
        )
        rows += [ideal, one]
        checks += [
            within(f"{model}: TopoOpt is as fast as the ideal switch, within {ABOUT:.0%}", ideal, low=1 - ABOUT),
            within(f"{model}: TopoOpt is no slower than a switch of one interface's rate", one, low=1 - ABOUT),
        ]
    return Finding(
        tuple(rows),
        tuple(checks),
        ("All operators are on all servers. The paper's search finds the same for models of this size.",),
    )
