"""Figure 12's networks, on 16 servers: iteration times beside TopoOpt's."""

from __future__ import annotations

from analysis.papers.claim import Experiment, Finding, Row, Runs
from analysis.papers.evidence import ITERATION_TIMES, measure, speed_up
from analysis.papers.judging import near, rising, within

COMPARED = Experiment("topoopt/figure12.yaml", (), ("repeats=5", "workload.iterations=12"), ITERATION_TIMES)
TOPOOPT, EXPANDER = "TopoOpt", "expander"
PAPER = {"ideal": 1.0, "cost-equivalent": 2.8, "ideal / 2.8": None, "oversubscribed": None, EXPANDER: None}
"""By arm, how many times as long as TopoOpt it takes for CANDLE (section 5.3)."""
SAME, ABOUT = 0.05, 0.1


def compared(runs: Runs) -> Finding:
    """Each network's iteration time over TopoOpt's."""
    run = runs.get(COMPARED.spec)
    rows = {
        label: Row(
            f"iteration, {label} over {TOPOOPT}",
            "x",
            paper,
            None,
            measure(run, [label, TOPOOPT], speed_up, number=ITERATION_TIMES),
        )
        for label, paper in PAPER.items()
    }
    return Finding(
        tuple(rows.values()),
        (
            within(f"the ideal network is at most {SAME:.0%} faster", rows["ideal"], low=1 - SAME),
            near(
                f"the cost-equivalent one takes as long as the paper says, within {ABOUT:.0%}",
                rows["cost-equivalent"],
                ABOUT,
            ),
            *(
                rising(f"the expander is worst: {label}", [rows[label], rows[EXPANDER]])
                for label in PAPER
                if label != EXPANDER
            ),
        ),
        (
            "The paper has 128 servers, and its simulator overlaps computing with AllReduces; here they begin when all "
            "gradients are there, so networks differ less.",
            "By Table 3 the cost-equivalent switch has 55 % of the ideal one's rate, so no job could take 2.8 "
            "times as long.",
        ),
    )
