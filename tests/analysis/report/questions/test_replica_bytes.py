"""Bytes to replicas by their bounds."""

from __future__ import annotations

import pytest

from testbed.analysis.recorded import Run
from testbed.analysis.report import page
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import replica_bytes

from ..helpers import answer, only, with_metrics

ARMS = "ring-b16", "ps-b16", "bml-b16"


def bounded(run: Run, *bounds: dict[str, float]) -> Run:
    run = only(run, *ARMS)
    for trial_id, one in zip(ARMS, bounds, strict=False):
        run = with_metrics(run, trial_id, **one)
    return run


UPDATES = [
    {"replica_behind_allowed": 30.0, "replica_bytes": 56 * 2.0**20},
    {"replica_behind_allowed": 600.0, "replica_bytes": 10 * 2.0**20},
]


def test_arms_with_one_bound_are_not_asked(run: Run) -> None:
    same = [UPDATES[0], {**UPDATES[1], "replica_behind_allowed": 30.0}]
    for some in (bounded(run), bounded(run, UPDATES[0]), bounded(run, *same)):
        assert replica_bytes.by_bound(study(some)) is None


def test_bytes_are_drawn_over_the_bound_with_all_arms(run: Run) -> None:
    question = answer(bounded(run, *UPDATES), "replica-bytes")
    (panel,) = question.panels
    assert panel.figure["layout"]["xaxis"]["title"]["text"] == "bound (updates)"
    assert panel.figure["layout"]["yaxis"]["title"]["text"] == "bytes to the replica (MiB)"
    for trace in panel.figure["data"]:
        (row,) = question.frame.iloc[slice(*trace["rows"])].to_dict("records")
        assert trace["y"] == {"column": "replica_bytes", "times": pytest.approx(2**-20)}
        assert row["replica_bytes"] == {30.0: 56 * 2**20, 600.0: 10 * 2**20}[row["bound"]]
    text = question.seen[0].replace("\N{NO-BREAK SPACE}", " ")
    assert text.endswith(
        "got from 10 MiB with a bound of 600 updates (PS on fat-tree at batch 16) to 56 MiB with a bound of 30 updates "
        "(Ring on fat-tree at batch 16): 5.6 times as many."
    )
    assert "How many bytes did the replica get?" in page.render(bounded(run, *UPDATES))


def test_an_interval_of_one_trial_is_not_drawn(run: Run) -> None:
    assert '"replica_bytes_low":[null,null]' in answer(bounded(run, *UPDATES), "replica-bytes").json()


def test_a_kind_of_bound_that_one_arm_has_is_left_out(run: Run) -> None:
    third = {"divergence_allowed": 1.0, "replica_bytes": 3.0}
    question = answer(bounded(run, *UPDATES, third), "replica-bytes")
    assert len(question.panels) == 1
    assert sorted(question.frame["bound"]) == [30.0, 600.0]
