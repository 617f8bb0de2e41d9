"""A sweep from first trial to report: order, what is swept in results and report, repeating until it is enough."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from testbed.analysis.load import load as load_run
from testbed.analysis.report import write as write_report
from testbed.analysis.report.points import apart
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment

from ..runner import go, in_memory
from ..sweeps import CELLS, UNTIL, Made, measured, records, source


def test_every_trial_runs_once_in_order_and_says_where_it_was(made_up: Made, tmp_path: Path) -> None:
    ran = made_up()
    done = go(Experiment.new(source(), tmp_path / "run", in_memory))
    assert ran.ids == [trial.id for trial in trials(source())]
    assert len(set(ran.ids)) == len(ran.ids) == 2 * CELLS
    assert ran.ids[CELLS:] == [one.replace("-r1", "-r2") for one in reversed(ran.ids[:CELLS])]
    assert ran.ids[0] == "PS-b2-rate100Mbit-s-hosts2-servers1-r1"
    found = records(tmp_path / "run")
    assert found["PS-b2-rate200Mbit-s-hosts4-servers4-r2"]["point"] == {
        "links.rate": 200_000_000,
        "topology.hosts": 4,
        "scheme.servers": 4,
    }
    assert found["PS-b2-rate200Mbit-s-hosts4-servers4-r2"]["at"] == "rate=200 Mbit/s, hosts=4, servers=4"
    assert [record["repeat"] for record in done.records] == [0] * CELLS + [1] * CELLS
    resolved = json.loads((tmp_path / "run" / "resolved.json").read_text())
    assert resolved["sweep"] == {
        "links.rate": [100_000_000, 200_000_000],
        "topology.hosts": [2, 3, 4],
        "scheme.servers": [1, 4],
    }
    assert (resolved["planned"], resolved["where"]) == (2 * CELLS, ["servers <= hosts"])
    assert "part" not in resolved


def test_results_have_a_column_for_each_swept_field(made_up: Made, tmp_path: Path) -> None:
    made_up()
    go(Experiment.new(source(), tmp_path / "run", in_memory))
    rows = list(csv.DictReader((tmp_path / "run" / "results.csv").open()))
    assert list(rows[0])[-3:] == ["links.rate", "topology.hosts", "scheme.servers"]
    assert [(row["label"], row["topology.hosts"], row["scheme.servers"]) for row in rows[:7]] == [
        ("PS", "2", "1"),
        ("ring", "2", ""),
        ("PS", "3", "1"),
        ("ring", "3", ""),
        ("PS", "4", "1"),
        ("PS", "4", "4"),
        ("ring", "4", ""),
    ]


def test_a_report_tells_points_apart(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: 1.0 + trial.job.world / 10)
    go(Experiment.new(source(), tmp_path / "run", in_memory))
    run = load_run(tmp_path / "run")
    assert (run.planned, len(run.trials)) == (2 * CELLS, 2 * CELLS)
    ring = next(one for one in run.trials if one.id == "ring-b2-rate200Mbit-s-hosts4-r1")
    assert (ring.point, ring.at) == ({"links.rate": 200_000_000, "topology.hosts": 4}, "rate=200 Mbit/s, hosts=4")
    told = apart(run)
    assert told.labels == ("PS, servers 1", "PS, servers 4", "ring")
    smaller = next(one for one in told.trials if one.id == "ring-b2-rate100Mbit-s-hosts3-r2")
    partner = told.reference_of(smaller.label, smaller.setting)
    assert partner == ("PS, servers 1", smaller.setting)
    page = write_report(tmp_path / "run").read_text()
    assert "PS, servers 4" in page
    assert "100 Mbit/s" in page


def test_repeating_ends_where_intervals_are_narrow_enough(made_up: Made, tmp_path: Path) -> None:
    ran = made_up(measured)
    done = go(Experiment.new(source(UNTIL, "workload.batch=[2, 4]"), tmp_path / "run", in_memory))
    count = {(one["label"], one["batch"]): 0 for one in done.records}
    for one in done.records:
        count[one["label"], one["batch"]] += 1
    assert count == {("PS", 2): 3, ("ring", 2): 3, ("PS", 4): 6, ("ring", 4): 6}  # what is compared goes on together
    assert [str(one) for one in done.loose] == ["PS, batch 4: ±12.9% after 6 VALID trials"]
    told = r"repeats scatter by 7.7%, so about 7\d% of the intervals within 5.0% cover the median"
    assert re.fullmatch(told, done.promise)
    assert ran.ids[-2:] == ["ring-b4-r6", "PS-b4-r6"] or ran.ids[-2:] == [
        "PS-b4-r6",
        "ring-b4-r6",
    ]


def test_invalid_trials_make_no_interval_narrower(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: -1.0 if trial.label == "PS" else 1.0)
    done = go(Experiment.new(source(UNTIL), tmp_path / "run", in_memory))
    assert len(done.records) == 2 * 6
    assert [str(one) for one in done.loose] == ["PS, batch 2: 0 VALID trials"]


def test_a_failed_trial_that_runs_again_loses_no_later_round(made_up: Made, tmp_path: Path) -> None:
    made_up(lambda trial: float("nan") if trial.repeat == 0 and trial.label == "PS" else measured(trial))
    spec = source(UNTIL, "workload.batch=4")
    before = go(Experiment.new(spec, tmp_path / "run", in_memory))
    assert before.failed
    made_up(lambda _: 1.0)
    after = go(Experiment.resumed(tmp_path / "run", None, in_memory))
    assert not after.failed
    assert len(after.records) == len(before.records)
