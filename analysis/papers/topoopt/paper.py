"""The claims of TopoOpt (Wang et al., NSDI 2023), and predicted iterations against those that run, over all experiments
with strategies.

Left out of the predictions are the arms of figure 15 whose circuits move (:data:`STAYS`): a prediction is for circuits
that stay, and what is unsent at each move is not known before. Left out is what is simulated (figure 12 on 128
servers). Jobs that share a cluster (figure 14) are all compared. The prediction of a job is of the job alone, and each
has links of its own here: its four hosts are those of a pod, or have a link to a switch each, or circuits with each
other only. Jobs with look-ahead have the network to themselves, in turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from testbed.analysis.papers.claim import Claim, Experiment, Finding, Paper, Row, Runs, within
from testbed.analysis.papers.evidence import Values, iteration_s, measure
from testbed.analysis.papers.topoopt.compared import (
    CANDLE,
    CANDLE_128,
    CANDLE_D8,
    DEGREES,
    DLRM_D4,
    ITERATIONS,
    OTHERS,
    SHARED,
    SHARED_432,
    compared,
    compared_128,
    degrees,
    shared,
    shared_432,
)
from testbed.analysis.papers.topoopt.computed import costs, hops
from testbed.analysis.papers.topoopt.panels import (
    BY_FAR,
    LEARNT,
    LOOK_AHEAD,
    MODELS,
    ONESHOT,
    RECONFIGURED,
    learnt,
    look_ahead,
    reconfigured,
    switched,
)
from testbed.analysis.papers.topoopt.permuted import (
    DLRM,
    PERMS,
    PERMS_ALLREDUCE,
    PERMS_CANDLE,
    permutations,
    permuted,
    trained,
)
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


PAPER = Paper(
    "topoopt",
    "TopoOpt: network topology and parallelisation found together (Wang et al., NSDI 2023)",
    (
        Claim(
            "topo.perms",
            "12 servers have the ring permutations 1, 5, 7 and 11. For DLRM on 16 servers with six interfaces, three "
            "rings carry the AllReduce, of strides 1, 3 and 7.",
            "sections 2.2 and 3.3, algorithms 2 and 3, figure 9",
            permutations,
            assumes=(
                "An AllReduce transfer is what a server sends around all rings, 4 GiB; activations are Appendix B's, "
                "32 MiB a server.",
            ),
        ),
        Claim(
            "topo.permuted",
            "AllReduce transfers may take any ring permutation, and MP transfers may not. With the three rings of "
            "figure 9 the AllReduce takes as long as with any of them alone, and MP transfers take fewer hops.",
            "sections 2.2 and 3.3, figures 4, 5, 6 and 9",
            permuted,
            (PERMS_ALLREDUCE, PERMS, PERMS_CANDLE),
            (
                "Computing takes 0.1 s a batch; the paper gives no time. DLRM's iterations are played five times as "
                "long, and CANDLE's two and a half times.",
            ),
        ),
        Claim(
            "topo.dlrm",
            "A DLRM whose tables are on servers of their own, on the network that is found for it, trains several "
            "times as fast as with data parallelism, and about as fast as with an ideal switch.",
            "sections 2.2, 3.2 and 5.3",
            trained,
            (DLRM,),
            ("Limits are 2 and 3 times, and 0.9 of the switch; the paper's DLRM has no measured times.",),
        ),
        Claim(
            "topo.predicted",
            "The task graph, played on a network, tells how long iterations take.",
            "section 5.1",
            predicted,
            EXPERIMENTS,
            ("A prediction counts as right from 0.9 to 1.1 of what is measured; the paper compares none.",),
        ),
        Claim(
            "topo.fig18",
            "12 servers with four interfaces of 25 Gbit/s behind patch panels train ResNet-50, BERT and CANDLE about "
            "as fast as with a switch of 100 Gbit/s.",
            "section 6, figure 18 and table 4",
            switched,
            tuple(MODELS.values()),
            (
                "Computing takes what a GPU of 10 TFLOP/s takes; the paper gives no times. All times are ten times as "
                "long, and rates a tenth.",
            ),
        ),
        Claim(
            "topo.fig19",
            "Accuracy grows over time behind patch panels as it does with the ideal switch.",
            "section 6, figure 19",
            learnt,
            (LEARNT,),
            ("A small network on digits stands for ResNet-50 on CIFAR10; rates are slow so that sums take time.",),
        ),
        Claim(
            "topo.cost",
            "An ideal fat-tree costs 3.4 times TopoOpt with patch panels, and optical circuit switches 1.33 times "
            "patch panels.",
            "section 5.2, table 3 and figure 11",
            costs,
        ),
        Claim(
            "topo.fig10",
            "With look-ahead, the circuits of a cluster's next job are patched while jobs run, and its servers turn to "
            "them immediately once they are free.",
            "section 4, figure 10",
            look_ahead,
            (LOOK_AHEAD,),
            (
                "Immediately is at most 50 ms. A robot takes 3 s in place of minutes, and two jobs run in turn on six "
                "servers.",
            ),
        ),
        Claim(
            "topo.fig12",
            "CANDLE trains as fast as with an ideal switch, and 2.8 times as fast as with a fat-tree of the same cost, "
            "which is 2.2 times in the mean of all models; an expander is worst.",
            "section 5.3, figures 12 and 13",
            compared,
            tuple(OTHERS),
            (
                "16 servers in place of 128, whose networks are for a simulation; rates and gradients are divided by "
                "5,000, so times stay. Computing takes what a GPU of 10 TFLOP/s takes.",
            ),
        ),
        Claim(
            "topo.fig12_128",
            "CANDLE on 128 servers trains as fast as with an ideal switch, and 2.8 times as fast as with a fat-tree of "
            "the same cost; an expander is worst.",
            "section 5.3, figure 12",
            compared_128,
            (CANDLE_128,),
            (
                "Simulated, as in the paper. Rates and gradients are divided by 5,000, so times stay. Computing takes "
                "what a GPU of 10 TFLOP/s takes.",
            ),
        ),
        Claim(
            "topo.three_hops",
            "In a cluster of 432 servers with eight interfaces each, most servers are at most three hops away; a "
            "fat-tree has up to six hops.",
            "section 5.4",
            hops,
        ),
        Claim(
            "topo.fig14",
            "If jobs share a cluster, iterations take 1.7 times as long with a fat-tree of the same cost, 1.16 times "
            "with an oversubscribed one, and 1.07 times with an ideal one. At the 99th percentile these are 3, 1.4 and "
            "1.12 times. The longest iteration stands for the 99th percentile.",
            "section 5.4, figure 14",
            shared,
            (SHARED,),
            (
                "16 servers in place of 432: four jobs at a time, with four servers and four interfaces each. Ten jobs "
                "have the paper's mix. Times are five times as long; computing takes what a GPU of 10 TFLOP/s takes.",
            ),
        ),
        Claim(
            "topo.fig14_432",
            "If jobs share a cluster of 432 servers, iterations take 1.7 times as long with a fat-tree of the same "
            "cost, 1.16 times with an oversubscribed one, and 1.07 times with an ideal one. At the 99th percentile "
            "these are 3, 1.4 and 1.12 times. The longest iteration stands for the 99th percentile.",
            "section 5.4, figure 14",
            shared_432,
            (SHARED_432,),
            (
                "Simulated, as in the paper. 10 and 20 jobs have the paper's mix, with 20 or 22 servers each. "
                "Computing takes what a GPU of 10 TFLOP/s takes.",
            ),
        ),
        Claim(
            "topo.fig15",
            "For DLRM, moving circuits within iterations loses by far against circuits that stay, if moves take 10 ms.",
            "sections 5.1 and 5.5, figure 15, appendix D",
            reconfigured,
            (RECONFIGURED,),
            (
                "A small DLRM that is trained on 12 servers, in place of the paper's on 128. Times are ten times as "
                "long: dark 100 ms are the paper's 10 ms, and circuits move every 500 ms in place of 50.",
                f"By far is at least {BY_FAR:g} times. The text has no number, and the values of the figure are lost.",
            ),
        ),
        Claim(
            "topo.fig16",
            "Synchronisation takes less time with more interfaces, almost in proportion where a job is data parallel.",
            "section 5.5, figure 16",
            degrees,
            (DEGREES, *ITERATIONS.values()),
            (
                "22 servers, the smallest even number with five rings: of an odd number, ten interfaces carry four.",
                "Links have 0.65 % of the paper's 100 Gbit/s for AllReduce alone, 40 % for CANDLE and 1.25 % for DLRM. "
                "For CANDLE and DLRM computing is slower by as much.",
            ),
        ),
    ),
    prefix="topo",
)
