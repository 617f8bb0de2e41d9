"""What becomes of numbers that ranks print, and what is said of those that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from testbed.execution.log_numbers import Found
from testbed.execution.logged import left_out, with_logged
from testbed.workloads.kinds.ranks import Account

NAMES = ("h0", "h1")
LOSS = {"loss": "loss ([0-9.]+)"}
UNFIT = "of 2 ranks are left out, because a rank must print one in each of the 2 iterations: "


def account(losses: Sequence[float]) -> Account:
    samples = pd.DataFrame({"rank": [0, 0, 1, 1], "iteration": [0, 1, 0, 1], "loss": losses})
    return Account(samples, 0, 400, 1, None, {"throughput_sps": None}, ())


SILENT = account([np.nan] * 4)


def test_losses_of_logs_are_those_of_iterations_where_there_is_one_for_each() -> None:
    found = with_logged(SILENT, Found({"loss": [[3.0, 2.0], [1.0]], "samples_per_s": [[9.0, 11.0], []]}))
    assert found.samples is not None
    assert found.samples["loss"].tolist()[:2] == [3.0, 2.0]
    assert found.samples["loss"].isna().tolist() == [False, False, True, True]
    assert found.metrics["throughput_sps"] == 10.0


def test_losses_that_the_script_told_stay() -> None:
    found = with_logged(account([5.0, 4.0, np.nan, 7.0]), Found({"loss": [[3.0, 2.0], [3.0, 2.0]]}))
    assert found.samples is not None
    assert found.samples["loss"].tolist()[:2] == [5.0, 4.0]
    assert found.samples["loss"].tolist()[3] == 7.0


@pytest.mark.parametrize(
    ("told", "printed", "says"),
    [
        (SILENT, [[3.0, 2.0], [3.0, 2.0]], []),
        (SILENT, [[3.0, 2.0], []], []),  # one rank prints for all
        (SILENT, [[3.0, 2.0], [1.0]], [f"losses of 1 {UNFIT}h1 printed 1"]),
        (SILENT, [[3.0] * 5000, [1.0]], [f"losses of 2 {UNFIT}h0 printed 5,000, h1 printed 1"]),
        (account([5.0, 4.0, 3.0, 2.0]), [[3.0], [1.0]], []),  # the script told all by itself
        (
            account([5.0, np.nan, 3.0, 2.0]),
            [[3.0, 2.0], [1.0]],
            ["some ranks told a loss that is a number in fewer than the 2 iterations: h0 in 1"],
        ),
        (SILENT, [[], []], ["metrics.loss: 'loss ([0-9.]+)' finds no number in any log"]),
        (
            replace(SILENT, samples=None),
            [[3.0], []],
            ["losses were printed, and belong to no iteration, because the script's sums show none"],
        ),
    ],
)
def test_losses_that_are_left_out_are_told(told: Account, printed: list[list[float]], says: list[str]) -> None:
    assert left_out(told, Found({"loss": printed}), LOSS, NAMES) == says


def test_without_metrics_nothing_is_missed() -> None:
    assert left_out(SILENT, Found(), {}, NAMES) == []


def test_a_pattern_that_took_too_long_is_named_with_a_better_one() -> None:
    slow = {"accuracy": "(a+)+b", **LOSS}
    assert left_out(SILENT, Found({"loss": [[2.0, 1.0], []]}, ["accuracy"]), slow, NAMES) == [
        "metrics.accuracy: '(a+)+b' took more than 10 s of processor time on the logs, so it has no numbers; make it "
        "simpler, without repetitions inside of repetitions, such as 'loss ([0-9.]+)'"
    ]
