"""Which changes of rates a prediction is made with."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.execution.predicting import rate_changes
from testbed.workloads.kinds.asked import Change


def event(done_s: float | None, rate_bps: dict[str, int], **more: Any) -> dict[str, Any]:
    links = {"rate_bps": rate_bps, "blocked": more.pop("blocked", {})}
    return {"begun_s": 0.0, "done_s": done_s, "error": None, "links": links, **more}


def test_changes_are_in_the_order_in_which_they_were_done() -> None:
    found = rate_changes([event(2.0, {"3": 5}), event(1.0, {"3": 7, "4": 8}), {"begun_s": 0.5, "links": None}])
    assert found == [Change(1.0, {3: 7.0, 4: 8.0}), Change(2.0, {3: 5.0})]


def test_what_never_began_changed_nothing() -> None:
    assert rate_changes([event(None, {"3": 5}, begun_s=None)]) == []


@pytest.mark.parametrize(
    "other", [event(1.0, {}, blocked={"3": True}), event(None, {"3": 5}), event(1.0, {"3": 5}, error="tc failed")]
)
def test_nothing_is_predicted_where_nobody_knows_the_rates(other: dict[str, Any]) -> None:
    assert rate_changes([event(1.0, {"3": 5}), other]) is None
