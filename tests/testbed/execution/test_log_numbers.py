"""Numbers that ranks print are found in their logs, and no log can hold the harness up."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import TrialError
from testbed.execution import log_numbers
from testbed.execution.log_numbers import Found
from testbed.execution.number_finder import LONGEST_LINE, MOST_NUMBERS, numbers

LOSS = r"loss ([-+0-9.einf]+)"


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
    assert numbers(LOSS, text) == found


def test_a_group_that_matches_nothing_is_no_number() -> None:
    assert numbers("loss( [0-9]+)?", "loss\nloss 3\n") == [3.0]


def test_the_last_numbers_are_kept() -> None:
    assert len(numbers(LOSS, "loss 1\n" * (MOST_NUMBERS + 5))) == MOST_NUMBERS


def test_each_log_has_its_numbers_and_one_that_is_a_link_has_none(tmp_path: Path) -> None:
    (tmp_path / "h0.log").write_text("loss 2\nspeed 100/s\n")
    (tmp_path / "secret").write_text("loss 5\n")
    (tmp_path / "h1.log").symlink_to(tmp_path / "secret")
    found = log_numbers.read(
        [tmp_path / f"h{i}.log" for i in range(3)], {"loss": LOSS, "samples_per_s": r"speed (\d+)/s"}
    )
    assert found == Found({"loss": [[2.0], [], []], "samples_per_s": [[100.0], [], []]})
    assert log_numbers.read([tmp_path / "h0.log"], {}) == Found()


def test_an_expression_that_takes_for_ever_is_ended_and_the_others_find_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_numbers, "MOST_CPU_S", 0.3)
    (tmp_path / "h0.log").write_text("a" * 60 + "\nloss 2\nspeed 9\n")
    found = log_numbers.read([tmp_path / "h0.log"], {"first": LOSS, "slow": "(a+)+b", "last": r"speed (\d+)"})
    assert found == Found({"first": [[2.0]], "last": [[9.0]]}, ["slow"])


def test_a_search_that_ends_by_itself_fails_the_trial(tmp_path: Path) -> None:
    """As where memory runs out."""
    with pytest.raises(TrialError, match=r"the search for metrics in logs ended with exit status 1: re.error"):
        log_numbers.read([tmp_path / "h0.log"], {"loss": "("})


def test_of_many_logs_less_is_read_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_numbers, "MOST_TOGETHER_BYTES", 20)
    logs = [tmp_path / f"h{i}.log" for i in range(2)]
    for log in logs:
        log.write_text("loss 1\nloss 2\n")
    assert log_numbers.read(logs[:1], {"loss": LOSS}).numbers == {"loss": [[1.0, 2.0]]}
    assert log_numbers.read(logs, {"loss": LOSS}).numbers == {"loss": [[2.0], [2.0]]}
