"""What becomes of numbers that ranks print, and what is said of those that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.base.errors import TrialError
from testbed.execution import logged
from testbed.execution.logged import Found, accuracy, left_out, with_logged
from testbed.execution.number_finder import LONGEST_LINE, MOST_NUMBERS, numbers
from testbed.workloads.kinds.ranks import Account, Logged, RankRows
from tests.record_faults import faults

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


def timed(iterations: int) -> Account:
    """Two ranks whose iterations take a second each; the second rank ends later."""
    rows = [
        {"rank": rank, "iteration": i, "start_s": 10.0 + i, "end_s": 11.0 + i + rank / 10, "loss": np.nan}
        for rank in range(2)
        for i in range(iterations)
    ]
    return Account(pd.DataFrame(rows), 0, 400, 1, None, {}, ())


def ranks(*logged: Sequence[Logged]) -> list[RankRows]:
    return [RankRows(rank, rank, 9.0, (), logged=one) for rank, one in enumerate(logged)]


def test_an_accuracy_that_a_script_tells_is_that_of_its_last_iteration() -> None:
    told = ranks([Logged(12.5, {"accuracy": 0.5}), Logged(14.2, {"accuracy": 0.9})], [Logged(14.3, {"accuracy": 0.7})])
    found = accuracy(timed(4), told, Found())
    assert faults(found) == []
    assert found == {
        "accuracy": {
            "told_accuracy": 0.8,
            "curve": [[1.0, 0.5], [3.0, 0.8]],
            "curve_of": "told_accuracy",
            "curve_s": pytest.approx([2.1, 4.1]),
        }
    }


def test_where_a_script_marks_iterations_an_accuracy_is_that_of_the_one_that_goes_on() -> None:
    told = [Logged(10.5, {"accuracy": 0.5}), Logged(12.9, {"accuracy": 0.9}), Logged(14.5, {"accuracy": 1.0})]
    marked = RankRows(0, 0, 9.0, (), marks_s=(11.0, 12.0, 13.0, 14.0), logged=told)
    assert accuracy(timed(4), [marked], Found())["accuracy"]["curve"] == [[0, 0.5], [2, 0.9], [3, 1.0]]


def test_accuracies_that_ranks_print_are_at_equal_distances_if_they_divide_the_iterations() -> None:
    found = accuracy(timed(4), ranks([], []), Found({"accuracy": [[91.0, 93.0], []]}))["accuracy"]
    assert found["curve"] == [[1.0, 91.0], [3.0, 93.0]]
    odd = Found({"accuracy": [[90.0, 91.0, 92.0], []]})
    assert accuracy(timed(4), ranks([], []), odd) == {}
    assert left_out(timed(4), odd, {}, NAMES) == [
        "h0 printed 3 accuracies, which do not divide its 4 iterations, so nothing says when they were; call "
        "testbed.log(accuracy=...)"
    ]
    assert accuracy(replace(timed(4), samples=None), ranks([], []), odd) == {}


LOSS_TEXT = r"loss ([-+0-9.einf]+)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step 1: loss 2.5\nstep 2: loss 1.25, loss 9\nno number\n", [2.5, 1.25]),
        ("loss 1e-3\nloss inf\nloss ...\n", [1e-3]),
        ("x" * LONGEST_LINE + "loss 7\n", []),
        ("", []),
    ],
)
def test_the_first_number_of_each_line_counts(text: str, found: list[float]) -> None:
    assert numbers(LOSS_TEXT, text) == found


def test_a_group_that_matches_nothing_is_no_number() -> None:
    assert numbers("loss( [0-9]+)?", "loss\nloss 3\n") == [3.0]


def test_the_last_numbers_are_kept() -> None:
    assert len(numbers(LOSS_TEXT, "loss 1\n" * (MOST_NUMBERS + 5))) == MOST_NUMBERS


def test_each_log_has_its_numbers_and_one_that_is_a_link_has_none(tmp_path: Path) -> None:
    (tmp_path / "h0.log").write_text("loss 2\nspeed 100/s\n")
    (tmp_path / "secret").write_text("loss 5\n")
    (tmp_path / "h1.log").symlink_to(tmp_path / "secret")
    found = logged.read(
        [tmp_path / f"h{i}.log" for i in range(3)], {"loss": LOSS_TEXT, "samples_per_s": r"speed (\d+)/s"}
    )
    assert found == Found({"loss": [[2.0], [], []], "samples_per_s": [[100.0], [], []]})
    assert logged.read([tmp_path / "h0.log"], {}) == Found()


def test_an_expression_that_takes_for_ever_is_ended_and_the_others_find_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "MOST_CPU_S", 0.3)
    (tmp_path / "h0.log").write_text("a" * 60 + "\nloss 2\nspeed 9\n")
    found = logged.read([tmp_path / "h0.log"], {"first": LOSS_TEXT, "slow": "(a+)+b", "last": r"speed (\d+)"})
    assert found == Found({"first": [[2.0]], "last": [[9.0]]}, ["slow"])


def test_a_search_that_ends_by_itself_fails_the_trial(tmp_path: Path) -> None:
    """As where memory runs out."""
    with pytest.raises(TrialError, match=r"the search for metrics in logs ended with exit status 1: re.error"):
        logged.read([tmp_path / "h0.log"], {"loss": "("})


def test_of_many_logs_less_is_read_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "MOST_TOGETHER_BYTES", 20)
    logs = [tmp_path / f"h{i}.log" for i in range(2)]
    for log in logs:
        log.write_text("loss 1\nloss 2\n")
    assert logged.read(logs[:1], {"loss": LOSS_TEXT}).numbers == {"loss": [[1.0, 2.0]]}
    assert logged.read(logs, {"loss": LOSS_TEXT}).numbers == {"loss": [[2.0], [2.0]]}
