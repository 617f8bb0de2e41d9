"""How many of the intervals that repeats went on for cover the median."""

from __future__ import annotations

import re

from testbed.analysis.numbers.stopping import promise

CALM = [[1.0, 1.001, 1.002], [2.0, 2.003, 2.001]]
NOISY = [[1.0, 1.1, 0.9, 1.05, 0.95, 1.0], [1.0, 1.001, 1.0, 1.001, 1.0, 1.001]]


def test_calm_repeats_keep_the_promise_of_95_percent() -> None:
    told = re.fullmatch(
        r"repeats scatter by 0\.1%, so about (\d+)% of the intervals within 3\.0% cover .*", _told(CALM)
    )
    assert told
    assert 92 <= int(told[1]) <= 98


def test_noisy_repeats_do_not() -> None:
    told = re.fullmatch(
        r"repeats scatter by 5\.\d%, so about (\d+)% of the intervals within 3\.0% cover .*", _told(NOISY)
    )
    assert told
    assert 60 < int(told[1]) < 92


def test_nothing_is_promised_of_intervals_that_are_wide_or_not_there() -> None:
    assert _told([[1.0, 1.5, 0.7]]) == _told([[1.0], []]) == _told([]) == ""


def _told(cells: list[list[float]]) -> str:
    return promise(cells, 0.03, 3, 20)
