"""The claim about switches of plans, decided by trials that nobody ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from testbed.analysis.papers.claim import Verdict
from testbed.analysis.papers.plink_switch import LABEL, SWITCH, switch
from testbed.analysis.record.metrics import Accuracy
from testbed.analysis.recorded import Trial
from tests.analysis.papers import made_up

ITERATIONS, WORLD, EVERY = 90, 4, 10
ACCURACY = Accuracy(checked_sums=ITERATIONS, weights_equal=True, weights_error=1e-7, curve=[[0.0, 0.5]])


def trial(switch_s: float = 0.002, every: int = EVERY, accuracy: Accuracy = ACCURACY, lost: int = -1) -> Trial:
    """A trial in which all hosts follow another plan every so many iterations, and one host may lose a step."""
    rows: list[dict[str, Any]] = []
    for rank in range(WORLD):
        start_s = 0.0
        for i in range(ITERATIONS):
            start_s += (switch_s if i % every == 0 else 0.001) if i else 0.0
            moments = {"start_s": start_s, "ready_s": start_s + 0.1, "sum_s": start_s + 0.4, "end_s": start_s + 0.4}
            rows.append({"rank": rank, "iteration": i, "plan": i // every} | moments)
            start_s += 0.4
    samples = pd.DataFrame([row for row in rows if (row["rank"], row["iteration"]) != (1, lost)])
    made = made_up.trial(LABEL, 8, made_up.Times(0.3))
    return replace(made, samples=samples, iterations=ITERATIONS, world=WORLD, accuracy=accuracy)


def verdicts(made: Trial) -> list[Verdict]:
    return [check.verdict for check in switch({SWITCH.spec: made_up.run([made])}).checks]


def test_it_holds_if_switches_are_short_and_all_is_right() -> None:
    finding = switch({SWITCH.spec: made_up.run([trial()])})
    assert finding.verdict == Verdict.HOLDS
    seen = [row.interval.value for row in finding.rows if row.interval]
    assert seen == pytest.approx([2.0, 1.0, 8.0, 100.0, 100.0])


@pytest.mark.parametrize(
    ("made", "failing"),
    [
        (trial(switch_s=0.06), 0),
        (trial(every=30), 1),
        (trial(lost=ITERATIONS - 1), 2),
        (trial(accuracy=replace(ACCURACY, checked_sums=ITERATIONS - 1)), 2),
        (trial(accuracy=replace(ACCURACY, weights_equal=False)), 3),
        (trial(accuracy=replace(ACCURACY, weights_error=None)), 3),
    ],
)
def test_it_fails_otherwise(made: Trial, failing: int) -> None:
    expected = [Verdict.HOLDS] * 4
    expected[failing] = Verdict.FAILS
    assert verdicts(made) == expected


def test_without_a_run_it_is_not_decided() -> None:
    assert switch({}).verdict == Verdict.UNDECIDED
