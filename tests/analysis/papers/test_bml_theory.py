"""Figure 5 and the count of switches, as shown."""

from __future__ import annotations

import pytest

from testbed.analysis.papers.bml_theory import figure_5, switches


@pytest.mark.xdist_group("figure 5 of BML")
def test_figure_5() -> None:
    """All but PS on BCube are the paper's: it takes two hops for each pair of servers there, and some need one."""
    rows = figure_5().rows
    assert [row[:3] for row in rows if row[-1]] == [("ps", "bcube(n=4,k=2)", "16"), ("ps", "bcube(n=32,k=2)", "1024")]
    assert [row[3] == row[4] for row in rows] == [not row[-1] for row in rows]
    assert rows[1][3:] == ("1.500000", "1.875000", "15/8", "a")


def test_switches() -> None:
    assert all(built == paper for _, _, built, paper in switches().rows)
