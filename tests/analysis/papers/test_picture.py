"""A claim's numbers as a picture."""

from __future__ import annotations

import re

import pytest

from testbed.analysis.papers.claim import Row
from testbed.analysis.papers.picture import picture

CHARACTER_PX = 7
"""Width of a character of 12 px, at most."""


@pytest.mark.parametrize(("most", "unit", "last"), [(80.0, "%", "80.0 %"), (0.5, "", None)])
def test_no_tick_and_no_name_is_cut(most: float, unit: str, last: str | None) -> None:
    long = "cost a server at 10 Gbit/s, BCube(4,2) over fat-tree(4)"
    drawn = picture([Row("a", unit, most / 2, most), Row(long, unit, most / 4, most / 2)])
    assert " ".join(re.findall(r'text-anchor="end">([^<]*)<', drawn)) == f"a {long}"
    found = re.search(r'viewBox="0 0 (\d+) ', drawn)
    assert found
    ticks = re.findall(r'<text x="([\d.]+)" [^>]*text-anchor="middle"[^>]*>([^<]*)<', drawn)
    assert ticks
    assert last in (None, ticks[-1][1])
    for at, text in ticks:
        assert float(at) + CHARACTER_PX * len(text) / 2 <= int(found[1])
