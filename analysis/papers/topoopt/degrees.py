"""Figure 16's AllReduce part: what more interfaces bring."""

from __future__ import annotations

from analysis.papers.claim import Experiment, Finding, Row, Runs
from analysis.papers.evidence import GST, Values, gst_s, measure
from analysis.papers.judging import falling, near
from analysis.recorded import Trial

DEGREES = Experiment("topoopt/figure16.yaml", (), ("repeats=5", "workload.iterations=20"), GST)
COUNTS = (4, 6, 8, 10)
ABOUT = 0.1


def arm(degree: int) -> str:
    """The label of an arm of ``figure16.yaml``."""
    return f"d = {degree}"


def degrees(runs: Runs) -> Finding:
    """GST by degree, and d = 4 over d = 10, which is 2.5 if it is in proportion."""
    run = runs.get(DEGREES.spec)
    each = [Row(f"GST, {arm(d)}", "s", None, None, measure(run, [arm(d)], gst_s, number=GST)) for d in COUNTS]
    most = COUNTS[-1] / COUNTS[0]
    over = Row(
        f"GST, {arm(COUNTS[0])} over {arm(COUNTS[-1])}",
        "x",
        most,
        most,
        measure(run, [arm(COUNTS[0]), arm(COUNTS[-1])], _ratio, number=GST),
    )
    return Finding(
        (over, *each),
        (
            falling("GST falls with each two interfaces", each),
            near(f"GST is in proportion to the interfaces, within {ABOUT:.0%}", over, ABOUT),
        ),
        (
            'AllReduce alone, of a gradient that all servers have (BERT-base). The paper\'s CANDLE is "almost linear", '
            "being close to data parallel; how much of its iterations is computing, it does not say.",
        ),
    )


def _ratio(first: Trial, second: Trial) -> Values:
    return gst_s(first) / gst_s(second)
