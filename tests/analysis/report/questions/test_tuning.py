"""Plans of tuned trials, and which hosts were masters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.analysis.load import load
from testbed.analysis.recorded import Run

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
STEPS = [
    {"after": 2, "how": "quicktune", "plan": 1, "global_masters": {"h0": 0, "h1": 4, "h2": 2}},
    {"after": 4, "how": "finetune", "plan": None, "global_masters": {"h0": 1, "h1": 3, "h2": 2}},
]


def test_a_run_without_tuned_trials_is_not_asked(run: Run) -> None:
    assert asked(run, "tuning") is None


def test_plans_are_marked_over_throughput_and_masters_are_by_host(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ring-b16.json", lambda trial: trial.update(tuning=STEPS))
    run = load(run_dir)
    question = answer(run, "tuning")
    speed, masters = question.panels
    (mark,) = speed.figure["layout"]["shapes"]
    assert mark["x0"] == mark["x1"] == 2
    (heat,) = masters.figure["data"]
    rows = question.frame.iloc[slice(*heat["rows"])]
    assert rows[["iteration", "host", "global_masters"]].values.tolist() == [
        [step["after"], host, count]
        for step in STEPS
        for host, count in step["global_masters"].items()  # type: ignore[attr-defined]
    ]
    trial = next(trial for trial in run.trials if trial.id == "ring-b16")
    course = question.frame.iloc[slice(*speed.figure["data"][0]["rows"])]
    assert trial.samples is not None
    whole_s = trial.samples["end_s"].max() - trial.samples["start_s"].min()
    assert (trial.batch * trial.world / course["throughput_sps"]).sum() - whole_s < 1e-6
    (row,) = question.told
    assert (row["Steps"], row["Plans told"], row["First plan after iteration"]) == ("2", "1", "2")
