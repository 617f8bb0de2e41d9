"""Table of costs: what annealing by each of them finds, and what forests take in these orders."""

from __future__ import annotations

import pytest

from testbed.analysis.papers.collectives_theory import MODELS, costs
from testbed.workloads.ranks import annealing


def test_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "STEPS_A_HOST", 250)
    table = costs()
    rows = {name: row for name, *row in table.rows}
    assert list(rows) == [model.name for model in MODELS]
    assert rows["ring"] == ["24", "48", "2.00", "1.875", "7.5", "4.00", "1.875", "7.5", "4.00"]
    assert rows["halving-doubling, by bytes"][:4] == ["1.5", "3.75", "2.50", "1.875"]
    assert rows["BCube"][:3] == ["4", "6", "1.50"]
    assert len(table.header) == len(table.rows[0])
