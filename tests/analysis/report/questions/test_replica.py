"""How far replicas were behind: a curve an arm, and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import page
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import replica

from ..helpers import answer, only, with_metrics

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


@pytest.fixture
def replicated(scheduled: Path, edit: Edit) -> Run:
    """One of the scheduled trials has a replica; what was dropped has no lead."""
    path = scheduled / "samples" / "ring-b16.parquet"
    samples = pd.read_parquet(path)
    behind = np.where(samples["fate"] == 2, np.nan, samples["update"] % 4)
    samples.assign(behind=behind, divergence=0.5 * behind).to_parquet(path)
    known = {"replica_bytes": 5e6, "replica_behind_max": 3.0, "divergence_allowed": 1.25}
    edit(scheduled / "trials" / "ring-b16.json", lambda trial: trial["metrics"].update(known))
    return load(scheduled)


def test_arms_without_a_replica_are_not_asked(scheduled: Path) -> None:
    assert replica.behind(study(load(scheduled))) is None


def test_each_arm_with_a_replica_has_a_curve_and_numbers(replicated: Run) -> None:
    question = answer(replicated, "replica")
    assert set(question.frame["arm"]) == {"Ring on fat-tree"}
    assert question.frame["time_s"].is_monotonic_increasing
    assert len(question.frame) == 162, "of 180 updates 18 were dropped"
    behind, divergence = question.panels
    for panel, name in ((behind, "behind"), (divergence, "divergence")):
        (trace,) = panel.figure["data"]
        assert (trace["rows"], trace["y"]) == ([0, 162], {"column": name})
    assert behind.figure["layout"]["shapes"] == []
    (bound,) = divergence.figure["layout"]["shapes"]
    assert (bound["y0"], bound["y1"], bound["line"]["color"]) == (1.25, 1.25, trace["line"]["color"])
    (row,) = question.told
    assert row["Arm"] == "Ring on fat-tree at batch 16"
    assert (row["Behind at most"], row["Divergence at most"], row["Replica got"]) == ("3 updates", "1.5", "4.77 MiB")
    assert row["Bound"] == "divergence 1.25"
    assert "When it took over" not in row
    assert "How far was the replica behind?" in page.render(replicated)


def test_a_bound_of_updates_is_a_line_where_updates_are(replicated: Run) -> None:
    run = with_metrics(replicated, "ring-b16", divergence_allowed=None, replica_behind_allowed=6.0)
    (panel,) = answer(run, "replica").panels
    assert [shape["y0"] for shape in panel.figure["layout"]["shapes"]] == [6.0]


def test_what_a_replica_lacked_when_it_took_over(replicated: Run, edit: Edit) -> None:
    def taken_over(trial: dict[str, Any]) -> None:
        trial["metrics"].update({"takeover_behind": 3, "takeover_lost": 0})
        trial["accuracy"].update({"takeover_apart": 0.1042, "takeover_allowed": 0.132, "takeover_rounded": 1e-3})

    edit(replicated.path / "trials" / "ring-b16.json", taken_over)
    (row,) = answer(load(replicated.path), "replica").told
    assert row["When it took over"] == "3 updates behind, weights 0.104 apart, 0 lost"


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
        assert replica.by_bound(study(some)) is None


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
