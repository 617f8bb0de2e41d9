"""What trials did after losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.record.happened import Loss
from testbed.analysis.recorded import Run
from testbed.analysis.report import markdown, page, room
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import recovery
from testbed.base.errors import OutputError

from ..helpers import answer, only

SERVER = Loss("h6", "h6 was killed by SIGKILL", ("server",), 0.9, 0.95, 0.25)
LATE = Loss("h0", "", ("worker", "daemon"), 1.0, None, None, ((0, 3), (1, 3)))


def hit(run: Run, *losses: Loss, **metrics: float) -> Run:
    (trial,) = only(run, "ps-b16").trials
    apart = {"takeover_apart": 0.1042, "takeover_rounded": 0.01}
    changed = replace(
        trial,
        losses=losses,
        metrics=replace(trial.metrics, **metrics),
        accuracy=replace(trial.accuracy, **apart) if metrics else trial.accuracy,
    )
    return replace(run, trials=(changed,))


def test_trials_without_losses_are_not_asked(run: Run) -> None:
    assert recovery.from_losses(study(hit(run))) is None


def test_role_moments_and_distance_of_each_loss(run: Run) -> None:
    lost = hit(run, SERVER, LATE, takeover_behind=3.0, takeover_lost=1.0, takeover_bound=0.122, divergence_allowed=0.2)
    question = answer(lost, "recovery")
    one, two = ({key: text.replace("\N{NO-BREAK SPACE}", " ") for key, text in row.items()} for row in question.told)
    assert (one["Lost"], one["Hit at"], one["Noticed at"]) == ("server (h6)", "0.900 s", "0.950 s")
    assert (one["Next commit"], one["Lost updates"]) == ("0.250 s later", "1")
    assert one["Distance at takeover"] == "0.104; at most 0.13 by eq. 11 and roundings; bound 0.2"
    assert (two["Lost"], two["Noticed at"], two["Next commit"]) == ("worker and daemon (h0)", "–", "–")
    assert (two["Lost updates"], two["Distance at takeover"]) == ("2", "")
    assert question.frame["until_noticed_s"].tolist() == pytest.approx([0.05, float("nan")], nan_ok=True)
    assert "How did trials go on after losses?" in page.render(lost)


def test_bars_go_from_the_hit_to_the_next_commit(run: Run) -> None:
    (panel,) = answer(hit(run, SERVER), "recovery").panels
    unnoticed, uncommitted = panel.figure["data"]
    assert (unnoticed["x"]["column"], uncommitted["x"]["column"]) == ("until_noticed_s", "until_commit_s")
    assert unnoticed["y"] == uncommitted["y"] == [0]
    assert panel.figure["layout"]["xaxis"]["title"]["text"] == "time since the hit (ms)"


def test_a_loss_that_nobody_noticed_has_no_bar_and_no_sentence(run: Run) -> None:
    question = answer(hit(run, LATE), "recovery")
    assert question.seen == ()
    assert "Lost" in question.told[0]


def test_many_losses_are_cut_and_told_of(run: Run) -> None:
    many = [replace(SERVER, node=f"h{i}") for i in range(room.MOST_ROWS + 1)]
    question = answer(hit(run, *many), "recovery")
    assert len(question.told) == room.MOST_ROWS
    assert len(question.frame) == room.MOST_ROWS + 1
    assert f"Drawn are {room.MOST_ROWS} of {room.MOST_ROWS + 1} losses." in question.defined
    told = "The table has 24 of 25 rows, at least one of each arm. All are in the CSV of the HTML report."
    assert question.seen[0] == told
    assert f"- {told}\n" in markdown.render(hit(run, *many))


Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
TRIAL = "ring-b16.json"
WROTE = {"processes": 9, "count": 4, "bytes": 36 * 10**6, "longest_s": 2.0}


def writing(run_dir: Path, edit: Edit, wrote: dict[str, Any]) -> Run:
    """The run, one trial of which wrote checkpoints; it took 8 s."""

    def change(record: dict[str, Any]) -> None:
        record["checkpoints"] = wrote
        record["metrics"]["jct_s"] = 8.0

    edit(run_dir / "trials" / TRIAL, change)
    return load(run_dir)


def test_runs_without_checkpoints_are_not_asked(run: Run) -> None:
    assert recovery.cost(study(run)) is None


def test_only_arms_that_write_have_a_bar(run_dir: Path, edit: Edit) -> None:
    question = answer(writing(run_dir, edit, WROTE), "checkpoints")
    (row,) = question.frame.to_dict("records")
    assert row["share_of_jct"] == 0.25
    assert {name: row[name] for name in WROTE} == WROTE
    assert question.told == (
        {
            "Arm": "Ring on fat-tree at batch 16",
            "Processes that wrote": "9",
            "Checkpoints of each": "4",
            "Written in all": "34.3\u00a0MiB",
            "Longest time": "2.00\u00a0s",
            "Share of JCT": "25.0%",
        },
    )
    (panel,) = question.panels
    assert len(panel.figure["data"]) == 1


def test_a_trial_too_short_for_a_checkpoint(run_dir: Path, edit: Edit) -> None:
    question = answer(writing(run_dir, edit, {"processes": 0, "count": 0, "bytes": 0, "longest_s": 0.0}), "checkpoints")
    assert question.told[0]["Share of JCT"] == "0.0%"
    assert question.panels[0].figure["layout"]["xaxis"]["range"] == [0, 1]


@pytest.mark.parametrize("most", [0.9, 0.3, 0.08, 0.05, 0.03, 0.0105, 0.004, 0.0001])
def test_ticks_of_any_axis_differ(most: float) -> None:
    digits = int(recovery.tick_format(most)[1:-1])
    for count in range(3, recovery.MOST_TICKS + 1):
        texts = [f"{most * at / count:.{digits}%}" for at in range(count + 1)]
        assert len({*texts}) == len(texts)


@pytest.mark.parametrize("most", [0.0, math.nan])
def test_an_axis_without_length_has_whole_percents(most: float) -> None:
    assert recovery.tick_format(most) == ".0%"


def test_what_cannot_be_is_refused(run_dir: Path, edit: Edit) -> None:
    with pytest.raises(OutputError, match="longest_s"):
        writing(run_dir, edit, WROTE | {"longest_s": -1})
