"""Figure 14: jobs that share a cluster, by network; their mean iteration time, and the longest, over TopoOpt's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import Values, iteration_s, measure
from testbed.analysis.papers.judging import near, within
from testbed.analysis.recorded import Run, Trial

SHARED = Experiment("topoopt/figure14.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=12"))
TOPOOPT = "TopoOpt"
JOBS = {
    "50 %": ("bert", "dlrm"),
    "100 %": ("vgg", "candle-1", "candle-2", *(f"bert-{i}" for i in (1, 2, 3)), *(f"dlrm-{i}" for i in (1, 2, 3, 4))),
}
"""Jobs of an arm, by load."""
MEAN = {"cost-equivalent": 1.7, "oversubscribed": 1.16, "ideal": 1.07}
TAIL = {"cost-equivalent": 3.0, "oversubscribed": 1.4, "ideal": 1.12}
"""Times that a network takes over TopoOpt's, over all loads (section 5.4): in the mean, and of 99 %."""
SAME, ABOUT = 0.05, 0.1
Over = Callable[..., Values]


def labels(network: str, load: str) -> list[str]:
    """Return the labels of an arm's jobs in ``figure14.yaml``."""
    return [f"{network} {load}: {job}" for job in JOBS[load]]


def shared(runs: Runs) -> Finding:
    """A number of iterations is too small for a 99th percentile, so the tail is the longest iteration of any job."""
    run = runs.get(SHARED.spec)
    means = {
        (network, load): _row(run, "mean iteration", network, load, paper, _mean)
        for network, paper in MEAN.items()
        for load in JOBS
    }
    tails = [_row(run, "longest iteration", network, "100 %", paper, _longest) for network, paper in TAIL.items()]
    full = {network: means[network, "100 %"] for network in MEAN}
    return Finding(
        (*means.values(), *tails),
        (
            within(f"TopoOpt is as fast as the ideal network, within {SAME:.0%}", full["ideal"], low=1 - SAME),
            within("the cost-equivalent network is slower", full["cost-equivalent"], low=1.0),
            *(
                near(f"{row.name}: as the paper says, within {ABOUT:.0%}", row, ABOUT)
                for row in (*full.values(), *tails)
            ),
        ),
        (
            "The paper has 432 servers with eight interfaces, and jobs of many sizes; that is for the flow-level "
            "simulator. Its fat-trees lose to incast and to hops between jobs' servers; here each job has a pod.",
            "BERT and VGG16 mostly compute, in every network, and so weigh down the mean.",
        ),
    )


def _row(run: Run | None, what: str, network: str, load: str, paper: float, over: Over) -> Row:
    arms = [*labels(TOPOOPT, load), *labels(network, load)]
    return Row(f"{what}, {network} over {TOPOOPT}, {load}", "x", paper, ours=measure(run, arms, over))


def _each(trials: tuple[Trial, ...]) -> tuple[Values, Values]:
    """float64[jobs, iterations] of TopoOpt's jobs, and of the other network's."""
    own, other = np.split(np.array([iteration_s(trial) for trial in trials]), 2)
    return own, other


def _mean(*trials: Trial) -> Values:
    own, other = _each(trials)
    found: Values = other.mean(axis=0) / own.mean(axis=0)
    return found


def _longest(*trials: Trial) -> Values:
    own, other = _each(trials)
    found: Values = other.max(axis=0) / own.max(axis=0)
    return found
