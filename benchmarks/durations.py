"""Durations of the experiments of claims, as ``testbed reproduce --list`` says them, beside those of their specs.

    python -m benchmarks.durations

Exit status 1 if two are more than 5 % apart; then mend ``analysis/papers/durations.py``. The suite holds those of the
quick mode alone: those of both take 20 s of a core.
"""

from __future__ import annotations

import sys

from testbed.analysis.papers import PAPERS
from testbed.analysis.papers.durations import DURATIONS_S
from testbed.comparison.reproduction import experiments, source
from testbed.experiment.duration import Estimate
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from tests.shipped import PLAYED, STEPS_OF_A_GUESS

APART = 0.05
"""Share by which a duration may differ from the computed one."""


def main() -> int:
    claims = [claim for paper in PAPERS.values() for claim in paper.claims]
    apart = 0
    print(f"{'experiment':34}{'mode':8}{'said':>10}{'computed':>10}")
    for full in (False, True):
        for experiment in experiments(claims, full):
            said_s = DURATIONS_S[experiment.spec][full]
            planned = trials(settled(source(experiment, full), most_steps=STEPS_OF_A_GUESS))
            seconds = Estimate(PLAYED).left_s(planned)
            is_apart = said_s is None or abs(seconds - said_s) > APART * said_s
            apart += is_apart
            said = "none" if said_s is None else f"{said_s:.1f}"
            mark = "  APART" if is_apart else ""
            print(f"{experiment.spec:34}{'full' if full else 'quick':8}{said:>10}{seconds:>10.1f}{mark}", flush=True)
    print(f"{apart} of them are more than {APART:.0%} apart")
    return int(apart > 0)


if __name__ == "__main__":
    sys.exit(main())
