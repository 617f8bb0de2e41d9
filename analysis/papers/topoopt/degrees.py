"""Figure 16: what more interfaces bring, for AllReduce alone and for iterations of CANDLE and DLRM."""

from __future__ import annotations

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import GST, gst_s, iteration_s, measure
from testbed.analysis.papers.judging import falling, near

DEGREES = Experiment("topoopt/figure16.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=20"), GST)
ITERATIONS = {
    model: Experiment(f"topoopt/figure16_{model.lower()}.yaml", (), ("repeats=5", "workload.iterations=20"))
    for model in ("CANDLE", "DLRM")
}
COUNTS = (4, 6, 8, 10)
ABOUT = 0.1


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
