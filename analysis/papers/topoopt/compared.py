"""Networks of 16 servers beside TopoOpt's, by iteration times: for CANDLE and DLRM (figures 12 and 13), and for jobs
that share a cluster (figure 14). For CANDLE also networks of 128 servers, and for jobs those of 432, simulated. Then
what more interfaces bring (figure 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.analysis.papers.claim import (
    ALL_SIMULATED,
    Experiment,
    Finding,
    Row,
    Runs,
    Statement,
    falling,
    near,
    rising,
    within,
)
from testbed.analysis.papers.evidence import GST, Values, gst_s, iteration_s, mean_of, measure, speed_up
from testbed.analysis.recorded import Run, Trial

FULL = ("repeats=5", "workload.iterations=12")
CANDLE = Experiment("topoopt/figure12.yaml", ("workload.iterations=3",), FULL)
CANDLE_D8 = Experiment("topoopt/figure12_d8.yaml", ("workload.iterations=3",), FULL)
DLRM_D4 = Experiment("topoopt/figure12_dlrm.yaml", ("workload.iterations=3",), FULL)
TOPOOPT, IDEAL, EQUIVALENT, EXPANDER = "TopoOpt", "ideal", "cost-equivalent", "expander"
OTHERS = {
    CANDLE: (IDEAL, EQUIVALENT, "ideal / 2.8", "oversubscribed", EXPANDER, "spine-leaf"),
    CANDLE_D8: (IDEAL, EQUIVALENT, "oversubscribed", EXPANDER),
    DLRM_D4: (IDEAL, EQUIVALENT, "ideal / 2.8", "oversubscribed", EXPANDER),
}
CANDLE_128 = Experiment("topoopt/figure12_128.yaml", ("workload.iterations=3",), ("workload.iterations=12",))
OTHERS_128 = (IDEAL, EQUIVALENT, "ideal / 2.8", "oversubscribed", EXPANDER)
NAMES = {CANDLE: "CANDLE, d = 4", CANDLE_D8: "CANDLE, d = 8", DLRM_D4: "DLRM, d = 4", CANDLE_128: "CANDLE, 128 servers"}
PAPER = {(CANDLE, IDEAL): 1.0, (CANDLE, EQUIVALENT): 2.8, (CANDLE_128, IDEAL): 1.0, (CANDLE_128, EQUIVALENT): 2.8}
"""Times of a network's iteration over TopoOpt's (section 5.3), where the text has a number."""
MEAN = 2.2
"""Time of the cost-equivalent network's iteration over TopoOpt's, as the mean over all models, rates and degrees of
figures 12 and 13."""
SAME, ABOUT = 0.05, 0.1


def compared(runs: Runs) -> Finding:
    """Each network's iteration time over TopoOpt's."""
    rows = {(each, label): _iteration(runs, each, label) for each, labels in OTHERS.items() for label in labels}
    mean = Row(
        f"mean of CANDLE and DLRM, d = 4: iteration, {EQUIVALENT} over {TOPOOPT}",
        "x",
        MEAN,
        ours=mean_of([ours for one in (CANDLE, DLRM_D4) if (ours := rows[one, EQUIVALENT].ours)]),
    )
    return Finding(
        (*rows.values(), mean),
        (
            *(_ideal(each, rows[each, IDEAL]) for each in OTHERS),
            _cost_equivalent(rows[CANDLE, EQUIVALENT]),
            near(f"{mean.name}: as the paper says, within {ABOUT:.0%}", mean, ABOUT),
            *(
                _worst(each, label, rows[each, label], rows[each, EXPANDER])
                for each, labels in OTHERS.items()
                for label in labels
                if label != EXPANDER
            ),
        ),
        (
            "The paper has 128 servers, and overlaps simulated computing with AllReduces; here they begin when all "
            "gradients are there, so networks differ less.",
            "For DLRM each network has the strategy that a search finds for its own links.",
            "The spine-leaf network sums by rings within and across racks (H-AR).",
            "By Table 3 the cost-equivalent switch has 55 % of the ideal one's rate, so no job takes 2.8 or 2.2 "
            "times as long as on that one.",
            "The paper's 2.2 is a mean over three models, five rates of links, and four and eight interfaces. Here it "
            "is a mean of two models, each of the same weight, at one rate.",
        ),
    )


def compared_128(runs: Runs) -> Finding:
    """CANDLE on the paper's number of servers, in simulated time."""
    rows = {label: _iteration(runs, CANDLE_128, label) for label in OTHERS_128}
    others = [label for label in OTHERS_128 if label != EXPANDER]
    return Finding(
        tuple(rows.values()),
        (
            _ideal(CANDLE_128, rows[IDEAL]),
            _cost_equivalent(rows[EQUIVALENT]),
            *(_worst(CANDLE_128, label, rows[label], rows[EXPANDER]) for label in others),
        ),
        (
            ALL_SIMULATED,
            "The paper overlaps computing with AllReduces; here they begin when all gradients are there, so networks "
            "differ less.",
            "By Table 3 the cost-equivalent switch has 55 % of the ideal one's rate, so no job takes 2.8 times as long "
            "as on that one.",
        ),
    )


def _iteration(runs: Runs, experiment: Experiment, label: str) -> Row:
    """A network's iteration time over TopoOpt's."""
    found = measure(runs.get(experiment.spec), [label, TOPOOPT], speed_up)
    name = f"{NAMES[experiment]}: iteration, {label} over {TOPOOPT}"
    return Row(name, "x", PAPER.get((experiment, label)), ours=found)


def _ideal(experiment: Experiment, row: Row) -> Statement:
    return within(f"{NAMES[experiment]}: the ideal network is at most {SAME:.0%} faster", row, low=1 - SAME)


def _cost_equivalent(row: Row) -> Statement:
    return near(f"CANDLE: the cost-equivalent one takes as long as the paper says, within {ABOUT:.0%}", row, ABOUT)


def _worst(experiment: Experiment, label: str, row: Row, expander: Row) -> Statement:
    return rising(f"{NAMES[experiment]}: the expander is worst: {label}", [row, expander])


SHARED = Experiment("topoopt/figure14.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=12"))
JOBS = {
    "50 %": ("bert", "dlrm"),
    "100 %": ("vgg", "candle-1", "candle-2", *(f"bert-{i}" for i in (1, 2, 3)), *(f"dlrm-{i}" for i in (1, 2, 3, 4))),
}
"""Jobs of an arm, by load."""
SHARED_432 = Experiment("topoopt/figure14_432.yaml", ("workload.iterations=6",), ("workload.iterations=30",))
MIX = {"vgg": 1, "candle": 2, "bert": 3, "dlrm": 4}
JOBS_432 = {
    "50 %": ("vgg", *(f"{model}-{i + 1}" for model, count in MIX.items() if count > 1 for i in range(count))),
    "100 %": tuple(f"{model}-{i + 1}" for model, count in MIX.items() for i in range(2 * count)),
}
SHARED_MEAN = {"cost-equivalent": 1.7, "oversubscribed": 1.16, "ideal": 1.07}
SHARED_TAIL = {"cost-equivalent": 3.0, "oversubscribed": 1.4, "ideal": 1.12}
"""Times that a network takes over TopoOpt's, over all loads (section 5.4): in the mean, and of 99 %."""
Over = Callable[..., Values]


def labels(network: str, load: str, jobs: Sequence[str]) -> list[str]:
    """Return the labels of an arm's jobs in ``figure14.yaml`` and ``figure14_432.yaml``."""
    return [f"{network} {load}: {job}" for job in jobs]


def shared(runs: Runs) -> Finding:
    """A number of iterations is too small for a 99th percentile, so the tail is the longest iteration of any job."""
    return _shared(
        _Cluster(runs.get(SHARED.spec), SHARED, JOBS),
        (),
        "The paper has 432 servers with eight interfaces, and jobs of many sizes; that is for a "
        "simulation. Its fat-trees lose to incast and to hops between jobs' servers; here each job has a pod.",
    )


def shared_432(runs: Runs) -> Finding:
    """The same on the paper's number of servers, in simulated time."""
    cluster = _Cluster(runs.get(SHARED_432.spec), SHARED_432, JOBS_432)
    by_model = [
        _row(cluster, f"mean iteration of {model}", network, "100 %", None, _mean, model)
        for network in SHARED_MEAN
        for model in ("candle", "dlrm")
    ]
    return _shared(
        cluster,
        by_model,
        ALL_SIMULATED,
        "The paper does not say how many servers a job has. Here it has 20 or 22 with neighbouring numbers, and a rack "
        "of a fat-tree has six, so jobs meet on links between switches.",
        "The paper overlaps computing with AllReduces; here they begin when all gradients are there.",
    )


@dataclass(frozen=True)
class _Cluster:
    """A run of jobs that share a cluster, and the jobs of an arm, by load."""

    run: Run | None
    experiment: Experiment
    jobs: Mapping[str, Sequence[str]]


def _shared(cluster: _Cluster, more: Sequence[Row], *notes: str) -> Finding:
    means = {
        (network, load): _row(cluster, "mean iteration", network, load, paper, _mean)
        for network, paper in SHARED_MEAN.items()
        for load in cluster.jobs
    }
    tails = [
        _row(cluster, "longest iteration", network, "100 %", paper, _longest) for network, paper in SHARED_TAIL.items()
    ]
    full = {network: means[network, "100 %"] for network in SHARED_MEAN}
    return Finding(
        (*means.values(), *tails, *more),
        (
            within(f"TopoOpt is as fast as the ideal network, within {SAME:.0%}", full["ideal"], low=1 - SAME),
            within("the cost-equivalent network is slower", full["cost-equivalent"], low=1.0),
            *(
                near(f"{row.name}: as the paper says, within {ABOUT:.0%}", row, ABOUT)
                for row in (*full.values(), *tails)
            ),
        ),
        (*notes, "BERT and VGG16 mostly compute, in every network, and so weigh down the mean."),
    )


def _row(
    cluster: _Cluster, what: str, network: str, load: str, paper: float | None, over: Over, model: str = ""
) -> Row:
    """Row of a network at a load, of all jobs or of those of a model."""
    jobs = [job for job in cluster.jobs[load] if job.startswith(model)]
    arms = [*labels(TOPOOPT, load, jobs), *labels(network, load, jobs)]
    ours = measure(cluster.run, arms, over)
    return Row(f"{what}, {network} over {TOPOOPT}, {load}", "x", paper, ours=ours)


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


DEGREES = Experiment("topoopt/figure16.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=20"), GST)
ITERATIONS = {
    model: Experiment(f"topoopt/figure16_{model.lower()}.yaml", (), ("repeats=5", "workload.iterations=20"))
    for model in ("CANDLE", "DLRM")
}
COUNTS = (4, 6, 8, 10)


def arm(degree: int) -> str:
    """The label of an arm of ``figure16.yaml``."""
    return f"d = {degree}"


def degrees(runs: Runs) -> Finding:
    """GST by degree, and d = 4 over d = 10, which is 2.5 if it is in proportion."""
    run = runs.get(DEGREES.spec)
    each = [Row(f"GST, {arm(d)}", "s", ours=measure(run, [arm(d)], gst_s, number=GST)) for d in COUNTS]
    most = COUNTS[-1] / COUNTS[0]
    over = Row(
        f"GST, {arm(COUNTS[0])} over {arm(COUNTS[-1])}",
        "x",
        most,
        most,
        measure(run, [arm(COUNTS[0]), arm(COUNTS[-1])], lambda first, second: gst_s(first) / gst_s(second), number=GST),
    )
    whole = {
        model: [
            Row(f"{model}: iteration, {arm(d)}", "s", ours=measure(runs.get(experiment.spec), [arm(d)], iteration_s))
            for d in COUNTS
        ]
        for model, experiment in ITERATIONS.items()
    }
    return Finding(
        (over, *each, *(row for rows in whole.values() for row in rows)),
        (
            falling("GST falls with each two interfaces", each),
            *(falling(f"{model}: iterations take less time with each two", rows) for model, rows in whole.items()),
            near(f"GST is in proportion to the interfaces, within {ABOUT:.0%}", over, ABOUT),
        ),
        (
            'AllReduce alone, of a gradient that all servers have (BERT-base). The paper\'s CANDLE is "almost linear", '
            "being close to data parallel; how much of its iterations is computing, it does not say.",
            "CANDLE is data parallel here. DLRM has the strategy and the network that a search finds for each degree.",
        ),
    )
