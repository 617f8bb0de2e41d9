"""Which trials count where trials are repeated until a median is known well enough."""

from __future__ import annotations

from typing import Any

from testbed.analysis.cell import Cell
from testbed.experiment.repeats import _values

CELL = Cell("ring", 16)


def record(fidelity: dict[str, Any], kind: str = "train") -> dict[str, Any]:
    metrics = {"gst_median_s": 0.2, "jct_s": 1.0}
    return {
        **{"label": "ring", "batch": 16, "status": "done", "kind": kind},
        "metrics": metrics,
        "fidelity": fidelity,
    }


def test_a_trial_counts_by_the_verdict_of_the_number_that_is_repeated() -> None:
    numbers = {"gst": {"verdict": "VALID"}, "jct": {"verdict": "INVALID"}}
    mixed = {"verdict": "INVALID", "numbers": numbers}
    assert _values([record(mixed)]) == {CELL: [0.2]}
    assert _values([record(mixed, "command")]) == {}
    assert _values([record({"verdict": "VALID", "checks": []}, "command")]) == {CELL: [1.0]}
    assert _values([record({"verdict": "INVALID", "checks": []}), record({}) | {"status": "failed"}]) == {}
    unseen = {"verdict": "UNWATCHED", "numbers": {"gst": {"verdict": "UNWATCHED", "unwatched": ["stalls"]}}}
    assert _values([record(unseen)]) == {}
