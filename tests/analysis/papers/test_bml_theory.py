"""Figure 5 and the count of switches, as shown."""

from __future__ import annotations

import pytest

from testbed.analysis.papers import bml_theory
from testbed.analysis.papers.bml_theory import SIZES, figure_5, least_gst_t_f, switches


def test_figure_5(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but PS on BCube are the paper's: it takes two hops for each pair of servers there, and some need one."""
    monkeypatch.setattr(bml_theory, "SIZES", SIZES[:1])
    rows = figure_5().rows
    assert [row[:3] for row in rows if row[-1]] == [("ps", "bcube(n=4,k=2)", "16")]
    assert [row[3] == row[4] for row in rows] == [not row[-1] for row in rows]
    assert rows[1][3:] == ("1.500000", "1.875000", "15/8", "a")


def test_many_servers() -> None:
    """PS has N^2 flows, so it has some hundreds of servers."""
    servers, bcube, fat_tree = SIZES[-1]
    assert servers == 1024
    assert least_gst_t_f("bml", bcube) == pytest.approx(1023 / 1024)
    assert least_gst_t_f("hierarchical", fat_tree) == pytest.approx(2 * 1023 / 1024)
    assert least_gst_t_f("ps", "bcube(n=16,k=2)") == pytest.approx(2 * 15 / 16)
    assert least_gst_t_f("ps", "fat_tree(k=8)") == pytest.approx(2 * 127 / 128)


def test_switches() -> None:
    assert all(built == paper for _, _, built, paper in switches().rows)
