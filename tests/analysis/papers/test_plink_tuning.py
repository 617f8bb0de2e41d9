"""The claim about Autotune, decided by trials that nobody ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.papers.claim import Verdict
from testbed.analysis.papers.plink_tuning import AUTOTUNE, LABEL, PLAIN, SWITCH, TUNED, autotune, limit, switch
from testbed.analysis.record.happened import Event
from testbed.analysis.record.metrics import Accuracy
from testbed.analysis.recorded import Trial
from tests.analysis.papers import made_up

HOSTS, ITERATIONS, FIRST, STOP = 8, 250, 10, 110


def trial(label: str, limited_s: float, uneven: float = 0.0, even_from: int = STOP + 70) -> Trial:
    """A trial in which host 0 is limited between two iterations, and sends a share more than others at the end."""
    wobble = 1 + 0.002 * np.sin(np.arange(ITERATIONS))
    took_s = wobble * [limited_s if FIRST <= i < STOP else 0.46 for i in range(ITERATIONS)]
    ends = np.cumsum(took_s)
    rows = [
        {
            "rank": rank,
            "iteration": i,
            "start_s": ends[i] - took_s[i],
            "ready_s": ends[i] - took_s[i] + 0.16,
            "sum_s": ends[i],
            "end_s": ends[i],
            "sent_bytes_1": 0 if rank == 0 else 900.0,
            "sent_bytes_2": (900 * (1 + (uneven if i >= even_from else 0.5))) if rank == 0 else 0,
        }
        for i in range(ITERATIONS)
        for rank in range(HOSTS)
    ]
    changes = (FIRST, STOP)
    events = tuple(Event("rate", "host 0", done_s=float(ends[i - 1]) + 0.01, rates_bps={0: 4e7}) for i in changes)
    made = made_up.trial(label, 32, made_up.Times(0.3))
    return replace(made, samples=pd.DataFrame(rows), events=events, iterations=ITERATIONS)


def decided(tuned: Trial) -> tuple[list[Verdict], Verdict]:
    finding = autotune({AUTOTUNE.spec: made_up.run([trial(PLAIN, 0.91), tuned])})
    return [check.verdict for check in finding.checks], finding.verdict


def test_the_limit_is_from_its_event_to_its_end() -> None:
    assert limit(trial(TUNED, 0.6)) == (FIRST + 1, STOP), "iteration 10 began before"


def test_it_holds_if_iterations_are_short_again_and_loads_are_even() -> None:
    assert decided(trial(TUNED, 0.6, uneven=0.02)) == ([Verdict.HOLDS, Verdict.HOLDS], Verdict.HOLDS)


@pytest.mark.parametrize(
    ("tuned", "checks"),
    [
        (trial(TUNED, 0.75), [Verdict.FAILS, Verdict.HOLDS]),
        (trial(TUNED, 0.6, uneven=0.08), [Verdict.HOLDS, Verdict.FAILS]),
        (trial(TUNED, 0.6, even_from=STOP + 140), [Verdict.HOLDS, Verdict.FAILS]),
    ],
)
def test_it_fails_otherwise(tuned: Trial, checks: list[Verdict]) -> None:
    assert decided(tuned)[0] == checks


def test_without_a_run_it_is_not_decided() -> None:
    assert autotune({}).verdict == Verdict.UNDECIDED


def test_rows_are_beside_theory() -> None:
    finding = autotune({AUTOTUNE.spec: made_up.run([trial(PLAIN, 0.91), trial(TUNED, 0.6)])})
    for row, expected in zip(finding.rows, (0.91 / 0.6, 0.46, 0.91, 0.6, 1.0), strict=True):
        assert row.ours is not None
        assert row.ours.interval is not None
        assert row.ours.interval.value == pytest.approx(expected, rel=0.01)


SWITCHED_ITERATIONS, WORLD, EVERY = 90, 4, 10
ACCURACY = Accuracy(checked_sums=SWITCHED_ITERATIONS, weights_equal=True, weights_error=1e-7, curve=[[0.0, 0.5]])


def switched(switch_s: float = 0.002, every: int = EVERY, accuracy: Accuracy = ACCURACY, lost: int = -1) -> Trial:
    """A switched in which all hosts follow another plan every so many iterations, and one host may lose a step."""
    rows: list[dict[str, Any]] = []
    for rank in range(WORLD):
        start_s = 0.0
        for i in range(SWITCHED_ITERATIONS):
            start_s += (switch_s if i % every == 0 else 0.001) if i else 0.0
            moments = {"start_s": start_s, "ready_s": start_s + 0.1, "sum_s": start_s + 0.4, "end_s": start_s + 0.4}
            rows.append({"rank": rank, "iteration": i, "plan": i // every} | moments)
            start_s += 0.4
    samples = pd.DataFrame([row for row in rows if (row["rank"], row["iteration"]) != (1, lost)])
    made = made_up.trial(LABEL, 8, made_up.Times(0.3))
    return replace(made, samples=samples, iterations=SWITCHED_ITERATIONS, world=WORLD, accuracy=accuracy)


def verdicts(made: Trial) -> list[Verdict]:
    return [check.verdict for check in switch({SWITCH.spec: made_up.run([made])}).checks]


def test_it_holds_if_switches_are_short_and_all_is_right() -> None:
    finding = switch({SWITCH.spec: made_up.run([switched()])})
    assert finding.verdict == Verdict.HOLDS
    seen = [row.interval.value for row in finding.rows if row.interval]
    assert seen == pytest.approx([2.0, 1.0, 8.0, 100.0, 100.0])


@pytest.mark.parametrize(
    ("made", "failing"),
    [
        (switched(switch_s=0.06), 0),
        (switched(every=30), 1),
        (switched(lost=SWITCHED_ITERATIONS - 1), 2),
        (switched(accuracy=replace(ACCURACY, checked_sums=SWITCHED_ITERATIONS - 1)), 2),
        (switched(accuracy=replace(ACCURACY, weights_equal=False)), 3),
        (switched(accuracy=replace(ACCURACY, weights_error=None)), 3),
    ],
)
def test_a_switch_fails_otherwise(made: Trial, failing: int) -> None:
    expected = [Verdict.HOLDS] * 4
    expected[failing] = Verdict.FAILS
    assert verdicts(made) == expected


def test_without_a_run_a_switch_is_not_decided() -> None:
    assert switch({}).verdict == Verdict.UNDECIDED
