"""What scripts waited for, and how fast their collectives were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import communication
from testbed.base.errors import OutputError

from ..helpers import answer, only, with_metrics

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
ONE = {
    **{"op": "allreduce", "dtype": "float32", "bytes": 25 * 10**6, "by": "scheme", "ranks": 9, "count": 20},
    **{"median_s": 2.2, "waited_s": 1.0, "algbw_bps": 9.09e7, "busbw_bps": 1.616e8, "least_s": 2.0},
}
MARK = {**ONE, "op": "barrier", "bytes": 0, "algbw_bps": None, "busbw_bps": None, "least_s": None}
BY_GLOO = {**ONE, "bytes": 400, "by": "gloo", "least_s": None}


def scripted(run: Run, *others: str) -> Run:
    """Trials of a script, the first under Gloo."""
    run = with_metrics(run, "ps-b16", exposed_s=0.2, hidden_s=0.1)
    for name in others:
        run = with_metrics(run, name, exposed_s=0.5, hidden_s=0.3, throughput_sps=None)
    of_gloo = tuple(replace(one, scheme="gloo") if one.id == "ps-b16" else one for one in run.trials)
    return only(replace(run, trials=of_gloo), "ps-b16", *others)


def test_runs_without_scripts_are_not_asked(run: Run) -> None:
    assert communication.exposed(study(run)) is None
    assert communication.collectives(study(run)) is None


def test_each_arm_says_how_long_it_waited_and_how_far_its_losses_are_from_gloos(run: Run) -> None:
    question = answer(scripted(run, "ring-b16"), "exposed")
    first, second = question.told
    assert (first["Exposed"], first["Hidden"]) == ("0.200\u00a0s", "0.100\u00a0s")
    assert (second["Exposed"], second["Samples/s"]) == ("0.500\u00a0s", "–")
    assert first["Losses apart from Gloo's"] == "0"
    assert second["Losses apart from Gloo's"] == "0"
    assert list(question.frame["both_s"]) == pytest.approx([0.3, 0.8])
    assert len(question.panels[0].figure["data"]) == 4


def test_losses_that_differ_are_told(run: Run) -> None:
    found = scripted(run, "ring-b16")
    samples = found.trials[1].samples
    assert samples is not None
    off = replace(found.trials[1], samples=samples.assign(loss=samples["loss"] * 1.01))
    row = answer(replace(found, trials=(found.trials[0], off)), "exposed").told[1]
    assert row["Losses apart from Gloo's"] == "1.0e-02"


def test_how_many_losses_were_compared_is_told_where_not_all_were(run: Run) -> None:
    """Means are over ranks that both arms know, so those of others make no difference."""
    found = scripted(run, "ring-b16")
    samples = found.trials[1].samples
    assert samples is not None
    some = samples.assign(loss=samples["loss"].where((samples["rank"] > 0) & (samples["iteration"] < 4)))
    trial = replace(found.trials[1], samples=some)
    row = answer(replace(found, trials=(found.trials[0], trial)), "exposed").told[1]
    known, every = some["loss"].notna().sum(), len(samples)
    assert row["Losses apart from Gloo's"] == f"0 ({known} of {every} losses)"
    none = replace(trial, samples=samples.assign(loss=None))
    row = answer(replace(found, trials=(found.trials[0], none)), "exposed").told[1]
    assert row["Losses apart from Gloo's"] == "–"


def test_numbers_that_were_left_out_are_told(run: Run) -> None:
    found = scripted(run, "ring-b16")
    lacking = tuple(replace(one, left_out=("h1 printed 3",)) for one in found.trials)
    assert answer(replace(found, trials=lacking[1:]), "exposed").seen == ("Batch 16: Ring on fat-tree: h1 printed 3.",)


def test_arms_whose_rows_python_made_are_told_once_with_why(run: Run) -> None:
    found = scripted(run, "ring-b16")
    why = "rows of sums were made in Python on h0"
    made = tuple(replace(one, slow_rows=why) for one in found.trials)
    assert answer(replace(found, trials=made), "exposed").seen == (
        f"{words.listed(dict.fromkeys(one.label for one in made))}: {why}.",
    )


def test_a_script_whose_waits_are_unknown_has_a_row_and_no_bar(run: Run) -> None:
    found = scripted(run, "ring-b16")
    metrics = replace(found.trials[1].metrics, exposed_s=None, hidden_s=None)
    samples = found.trials[1].samples
    assert samples is not None
    unknown = replace(found.trials[1], metrics=metrics, samples=samples.assign(exposed_s=None))
    question = answer(replace(found, trials=(found.trials[0], unknown)), "exposed")
    assert [row["Exposed"] for row in question.told] == ["0.200\u00a0s", "–"]
    assert len(question.frame) == 1
    alone = answer(replace(found, trials=(unknown,)), "exposed")
    assert (len(alone.panels), len(alone.told)) == (0, 1)


def test_without_an_arm_of_gloos_nothing_is_compared(run: Run) -> None:
    found = only(with_metrics(run, "ring-b16", exposed_s=0.5, hidden_s=0.3), "ring-b16")
    assert "Losses apart from Gloo's" not in answer(found, "exposed").told[0]


def test_collectives_that_moved_most_are_told_beside_the_limit_of_the_links(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials/ring-b16.json", lambda record: record.update(collectives=[BY_GLOO, MARK, ONE]))
    question = answer(load(run_dir), "collectives")
    assert question.told == (
        {
            "Arm": "Ring on fat-tree at batch 16",
            "Collective": "allreduce of 23.8\u00a0MiB",
            "Count": "20",
            "Time": "2.20\u00a0s",
            "algbw": "90.9\u00a0Mbit/s",
            "busbw": "162\u00a0Mbit/s",
            "Time / limit": "1.10×",
        },
        {
            "Arm": "Ring on fat-tree at batch 16",
            "Collective": "allreduce of 400\u00a0B (gloo)",
            "Count": "20",
            "Time": "2.20\u00a0s",
            "algbw": "90.9\u00a0Mbit/s",
            "busbw": "162\u00a0Mbit/s",
            "Time / limit": "–",
        },
    )


def test_every_arm_has_rows_of_collectives_and_the_rest_is_counted(run_dir: Path, edit: Edit) -> None:
    many = [{**ONE, "bytes": 1000 * n} for n in range(1, 31)]
    for path in sorted((run_dir / "trials").iterdir()):
        edit(path, lambda record: record.update(collectives=many))
    question = answer(load(run_dir), "collectives")
    rows = [row["Arm"] for row in question.told]
    cells = {f"{one.label} at batch {one.batch}" for one in load(run_dir).finished}
    assert {row.removesuffix(" (INVALID in JCT)") for row in rows} == cells
    assert question.seen[0] == (
        f"The table has {len(rows)} of {30 * len(cells)} rows: of each arm, the kinds and sizes that moved most bytes. "
        "All are in the trials' JSON."
    )


def test_one_sentence_counts_the_rows_of_more_arms_than_the_table_has_room_for(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials/ring-b16.json", lambda record: record.update(collectives=[ONE, MARK, BY_GLOO]))
    run = only(load(run_dir), "ring-b16")
    labels = tuple(f"ring {n}" for n in range(26))
    trials = tuple(replace(run.finished[0], label=label) for label in labels)
    question = answer(replace(run, labels=labels, trials=trials), "collectives")
    assert len(question.told) == 24
    assert question.seen == (
        "The table has 24 of 52 rows: of each arm, the kinds and sizes that moved most bytes; 2 more arms have none. "
        "All are in the trials' JSON.",
    )


def test_sums_that_are_compared_with_gloos_are_told_as_such(run_dir: Path, edit: Edit) -> None:
    compared, other = ({**ONE, "by": "gloo", "bytes": nbytes} for nbytes in (ONE["bytes"], 400))
    edit(run_dir / "trials/ring-b16.json", lambda record: record.update(collectives=[ONE, compared, other]))
    edit(run_dir / "resolved.json", lambda spec: spec["workload"].update(check=3))
    told = [row["Collective"] for row in answer(load(run_dir), "collectives").told]
    assert told == [
        "allreduce of 23.8\u00a0MiB",
        "allreduce of 23.8\u00a0MiB (gloo: the comparison of check: 3)",
        "allreduce of 400\u00a0B (gloo)",
    ]


def test_an_arm_of_gloos_names_it_beside_none_of_its_collectives(run_dir: Path, edit: Edit) -> None:
    """Its sums are the scheme's in the records, and all else is by Gloo; both are the arm's own."""
    edit(run_dir / "trials/ring-b16.json", lambda record: record.update(scheme="gloo", collectives=[ONE, BY_GLOO]))
    told = [row["Collective"] for row in answer(load(run_dir), "collectives").told]
    assert told == ["allreduce of 23.8\u00a0MiB", "allreduce of 400\u00a0B"]


def test_what_cannot_be_is_refused(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials/ring-b16.json", lambda record: record.update(collectives=[{**ONE, "median_s": -1.0}]))
    with pytest.raises(OutputError, match="median_s"):
        load(run_dir)
