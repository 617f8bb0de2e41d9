"""What results.csv says of a trial."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from testbed.analysis.record.tables import Window, columns
from testbed.execution import results
from testbed.execution.results import queues_record, queues_table
from testbed.experiment.expand import trials
from testbed.lab.measurements import Queues, Waited
from testbed.recovery.deaths import undisturbed
from testbed.spec import read

from ..bench import Bench

SPEC = """\
name: results
links: {{rate: 100 Mbit/s}}
workload: {{kind: profile, model: resnet50, scale: 100, batch: 32, iterations: 1, warmup: 0, overlap: {overlap},
  compute: {{mode: paced, pace: {{32: 1 s}}}}}}
arms: [{{topology: star(hosts=2), scheme: ring}}]
"""
GST = {"verdict": "VALID", "error": 0.01, "bound_s": 0.4, "certified": True, "spoilt_by": []}


@pytest.mark.parametrize(("excused", "wanted"), [([], "VALID"), (["CPU steal"], "INVALID")])
def test_the_percentile_of_gst_has_a_verdict_of_its_own(excused: list[str], wanted: str) -> None:
    numbers = {"gst": GST | {"excused": excused}, "jct": {"verdict": "VALID", "spoilt_by": []}}
    record: dict[str, Any] = {"id": "ring", "status": "done", "error": None, "metrics": {"gst_p95_s": 0.9}}
    record |= {"accuracy": None, "fidelity": {"verdict": "VALID", "numbers": numbers, "checks": []}}
    row = results.row(record)
    assert (row["gst_verdict"], row["gst_error"], row["gst_p95_verdict"]) == ("VALID", 0.01, wanted)
    assert row["waiting_verdict"] is None


def test_a_trial_that_failed_has_no_verdicts() -> None:
    record = {"id": "ring", "status": "failed", "error": "no", "metrics": None, "accuracy": None, "fidelity": None}
    assert results.row(record)["gst_p95_verdict"] is None


@pytest.mark.parametrize("label", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1"])
def test_nothing_in_the_table_is_a_formula(tmp_path: Path, label: str) -> None:
    record: dict[str, Any] = {"id": "ring", "label": label, "status": "failed", "error": "=1+1", "batch": -1}
    results.save_csv(tmp_path / "a.csv", [record | dict.fromkeys(("metrics", "accuracy", "fidelity"))])
    (row,) = csv.DictReader((tmp_path / "a.csv").open(newline=""))
    assert (row["trial"], row["label"], row["reasons"], row["batch"]) == ("ring", f"'{label}", "'=1+1", "-1")


@pytest.mark.parametrize(("overlap", "known"), [("none", True), ("layer", False), ("both", False)])
def test_a_bandwidth_is_that_of_a_whole_gradient(overlap: str, known: bool) -> None:
    """With overlap most of it is sent before GST begins: 147 Mbit/s over links of 100."""
    (trial,) = trials(read(SPEC.format(overlap=overlap), "spec.yaml", Path()))
    moments = {"start_s": [0.0] * 2, "ready_s": [1.0] * 2, "sum_s": [1.5] * 2, "end_s": [2.0] * 2}
    samples = pd.DataFrame({"rank": [0, 1], "iteration": [0, 0], **moments})
    found = results.measure(trial.job, samples, undisturbed(trial.job).phases, None, None)
    assert (found["algbw_bps"], found["busbw_bps"]) == ((16 * trial.job.gradient_bytes,) * 2 if known else (None, None))


SLOW = """
name: slow-link
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 400, batch: 32, iterations: 3, warmup: 0, compute: none}
arms: [{topology: star(hosts=3), scheme: ps}]
perturb: [{kind: rate, links: [h1], direction: in, share: 0.2, at: 0 s}]
"""
TO_H1 = 3
"""The directed link of s0 to h1."""


def test_times_are_those_of_the_trial() -> None:
    windows = (
        Waited(0, 9.5, 1.0, 5, 5.0, 0.0, 0, 0),  # with the bursts that measure links
        Waited(0, 10.5, 1.0, 7, 6.0, 1.0, 2, 0),
        Waited(1, 11.5, 1.0, 9, 9.0, 0.0, 0, 0),
        Waited(1, 12.5, 1.0, 1, 1.0, 0.0, 0, 0),
    )
    found = queues_table(Queues(windows, 4, 0.1), 10.0, 12.0)
    assert found is not None
    assert tuple(found) == columns(Window)
    assert found.values.tolist() == [[0, 0.5, 1.0, 7, 6.0, 1.0, 2, 0], [1, 1.5, 0.5, 9, 9.0, 0.0, 0, 0]]


def test_a_lab_that_cannot_tell_leaves_no_table() -> None:
    assert (queues_table(None, 0.0, 1.0), queues_record(None)) == (None, None)
    nothing = queues_table(Queues((), 4, 0.1, "no more"), 0.0, 1.0)
    assert nothing is not None
    assert (len(nothing), tuple(nothing)) == (0, columns(Window))
    assert {one.kind for one in nothing.dtypes} == {"i", "f"}  # as tables of others must have
    assert queues_record(Queues((), 4, 0.1, "no more")) == {"readings": 4, "cost_s": 0.1, "problem": "no more"}


@pytest.mark.lab
def test_bytes_wait_at_the_slow_link(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SLOW, tmp_path)
    found, jct_s = outcome.queues, outcome.record["metrics"]["jct_s"]
    assert found is not None
    assert outcome.record["queues"]["problem"] is None
    assert found["start_s"].between(0, jct_s).all()
    waited = (found["mean_bytes"] * found["window_s"]).groupby(found["link"]).sum() / jct_s
    assert isinstance(waited, pd.Series)
    assert waited[TO_H1] > 3 * waited.drop(TO_H1).max()
    assert waited[TO_H1] > 50_000
