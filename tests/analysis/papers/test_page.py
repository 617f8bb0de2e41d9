"""A claim's numbers as a picture."""

from __future__ import annotations

import operator
import re

import pytest

from testbed.analysis.papers.claim import Row
from testbed.analysis.papers.evidence import Measured
from testbed.analysis.papers.page import _line, _together, picture

CHARACTER_PX = 7
"""Width of a character of 12 px, at most."""


@pytest.mark.parametrize(("most", "unit", "last"), [(80.0, "%", "80.0 %"), (0.5, "", None)])
def test_no_tick_and_no_name_is_cut(most: float, unit: str, last: str | None) -> None:
    long = "cost a server at 10 Gbit/s, BCube(4,2) over fat-tree(4)"
    drawn = picture([Row("a", unit, most / 2, most), *[Row(long, unit, most / 4, most / 2)] * 2])
    assert " ".join(re.findall(r'text-anchor="end">([^<]*)<', drawn)) == f"a {long} {long}"
    found = re.search(r'viewBox="0 0 (\d+) ', drawn)
    assert found
    ticks = re.findall(r'<text x="([\d.]+)" [^>]*text-anchor="middle"[^>]*>([^<]*)<', drawn)
    assert ticks
    assert last in (None, ticks[-1][1])
    tops = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end"', drawn)]
    (_, to_name, within, to_next, _) = (0, *map(operator.sub, tops[1:], tops))
    assert min(to_name, to_next) > 1.5 * within  # names of two lines do not look like names of one
    for at, text in ticks:
        assert float(at) + CHARACTER_PX * len(text) / 2 <= int(found[1])


@pytest.mark.parametrize(
    ("samples", "trials", "told"),
    [(1, 1, "1 iteration, 1 of 1 trial VALID"), (2, 3, "2 iterations, 1 of 3 trials VALID"), (0, 0, "not run")],
)
def test_what_a_number_is_from_is_counted_in_words(samples: int, trials: int, told: str) -> None:
    ours = Measured((1.0,) * samples, "iterations", min(1, trials), trials, ())
    assert _line(Row("GST", "s", 1.0, 1.0, ours)).from_what == told


def test_a_row_that_would_stand_alone_is_drawn_with_the_others_of_its_unit() -> None:
    def drawn(*units: str) -> list[list[str]]:
        rows = [Row(f"{unit}{n}", unit, 1.0, 1.0) for n, unit in enumerate(units)]
        return [[row.name for row in group] for group in _together(rows)]

    assert drawn("%", "hops", "hops", "%", "hops") == [["%0", "%3"], ["hops1", "hops2", "hops4"]]
    assert drawn("s", "s", "%", "s", "s") == [["s0", "s1"], ["%2"], ["s3", "s4"]]
