"""Jobs of a spec that share a network, for real."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from testbed.analysis.jobs import singly
from testbed.analysis.load import load
from testbed.fidelity import lower_bound, wire
from testbed.run_directory import stored

from ..bench import Bench
from ..conftest import Called

SPEC = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 3, compute: none}
links: {rate: 200 Mbit/s}
retries: 0
quiet: 0 s
arms:
"""
STAR = """
  - topology: star(hosts=4)
    label: star
    jobs:
      - {name: a, scheme: ring, hosts: [h0, h3]}
      - {name: b, scheme: ps, hosts: 2, batch: 8, copies: 2}
"""
CROSSING = """
  - topology: spine_leaf(racks=2,hosts_per_rack=2,spines=1)
    label: crossing
    jobs: [{name: a, scheme: ring, hosts: [h0, h2]}, {name: b, scheme: ring, hosts: [h1, h3]}]
"""
TRAINED = """
name: trained
workload: {model: resnet8, dataset: digits, batch: 4, iterations: 12, compute: {mode: paced, pace: {4: 50 ms}}}
links: {rate: 200 Mbit/s}
retries: 0
quiet: 0 s
perturb: {kind: kill, nodes: [h0], at: 300 ms}
arms:
  - topology: star(hosts=4)
    label: killed
    jobs: [{name: a, scheme: ring, hosts: [h0, h3]}, {name: b, scheme: ring, hosts: [h1, h2]}]
"""
HYBRID = """
name: hybrid
workload: {model: dlrm_tiny, dataset: clicks, batch: 8, iterations: 3, compute: {mode: paced, pace: {8: 50 ms}}}
links: {rate: 100 Mbit/s}
retries: 0
quiet: 0 s
arms:
  - topology: star(hosts=4)
    label: hybrid
    jobs:
      - {name: a, scheme: ring, hosts: [h3, h1], strategy: {e0: [0], e1: [1], rest: all}}
      - {name: b, scheme: ring, hosts: 2, strategy: data}
"""
IN_TURN = """
name: in_turn
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 3, compute: none}
links: {rate: 200 Mbit/s}
retries: 0
quiet: 0 s
arms:
  - topology: "patch_panel(servers=6,degree=2,rings=[[0,1,2,3]],circuits=[[4-5]],look_ahead=true,reconfiguration_s=1)"
    label: in_turn
    jobs:
      - {name: first, scheme: ring, hosts: 4}
      - {name: beside, scheme: ring, hosts: [h4, h5]}
      - {name: second, scheme: "multi_ring(permutations=[[0,2,1,3]])", hosts: 4, rings: [[0, 2, 1, 3]]}
"""


def checks(job: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in job["fidelity"]["checks"] if check["name"] == name]


def test_each_job_has_its_results_and_a_row_and_one_waits_for_hosts(
    testbed: Callable[..., Called], tmp_path: Path
) -> None:
    """In a run, which can be gone on with."""
    (tmp_path / "spec.yaml").write_text(SPEC + STAR)
    out = tmp_path / "out"
    called = testbed("run", "spec.yaml", "--out", str(out), "--json")
    header, *rows = (out / "results.csv").read_text().splitlines()
    assert len(rows) == 3, called.err
    assert {"job", "queued_s"} <= {*header.split(",")}
    assert [one["label"] for one in json.loads(called.out)["trials"]] == ["star: a", "star: b-1", "star: b-2"]
    run = load(out)
    assert run.labels == ("star: a", "star: b-1", "star: b-2")
    samples = {trial.label: trial.samples for trial in run.trials if trial.samples is not None}
    assert {label: len(table) for label, table in samples.items()} == dict.fromkeys(run.labels, 6)
    records = stored.records(out)
    assert [*records] == ["star-b16"]
    _each_has_its_own(records["star-b16"], *(samples[label] for label in run.labels))
    assert (out / "report.html").stat().st_size > 0
    before = (out / "results.csv").read_text()
    testbed("run", "--resume", str(out))
    assert (out / "results.csv").read_text() == before, "nothing ran again"


def _each_has_its_own(
    record: dict[str, Any], of_a: pd.DataFrame, of_first: pd.DataFrame, of_second: pd.DataFrame
) -> None:
    assert record["status"] == "done", record["error"]
    a, first, second = singly([record])
    assert (a["label"], first["label"], second["id"]) == ("star: a", "star: b-1", "star-b16+b-2")
    for job in (a, first, second):
        assert job["status"] == "done"
        assert job["sums"]["wrong_elements"] == 0
        assert job["sums"]["checked_elements"] > 0
        assert job["metrics"]["gst_median_s"] > job["metrics"]["gst_theory_s"] * (1 - lower_bound.FASTER)
        assert all(check["ok"] for check in checks(job, wire.ABOUT.name)), "bytes of all jobs are expected"
    assert (first["batch"], first["hosts"], second["hosts"]) == (8, ["h1", "h2"], ["h1", "h2"])
    assert first["queued_s"] < second["queued_s"], "the second has hosts when the first has ended"
    for job in (a, first, second):
        assert job["submitted_s"] <= job["started_s"] < job["begun_s"]
    assert second["started_s"] > first["begun_s"] + first["metrics"]["jct_s"]
    first_ended_s = first["begun_s"] + of_first["end_s"].max()  # samples count from where their own job begins
    assert second["begun_s"] + of_second["start_s"].min() > first_ended_s
    assert a["begun_s"] + of_a["start_s"].min() < first_ended_s, "they ran at the same time"
    assert record["metrics"]["jct_s"] >= record["metrics"]["jct_bytes_s"]


def test_bytes_of_jobs_add_up_on_a_link_that_they_share(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC + CROSSING, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    links = {(link["from"], link["to"]): link for link in record["links"]}
    up, nic = links["leaf0", "spine0"], links["h0", "leaf0"]
    assert up["theory_bytes"] == pytest.approx(2 * nic["theory_bytes"], abs=1)
    assert up["bytes"] == pytest.approx(up["theory_bytes"], rel=0.05)
    for job in singly([record]):
        assert all(check["ok"] for check in (*checks(job, wire.ABOUT.name), *checks(job, lower_bound.ABOUT.name)))
    (*_, together) = record["fidelity"]["checks"]
    assert together["name"] == lower_bound.ABOUT.name
    assert together["ok"]
    assert together["value"] >= 1 - lower_bound.FASTER_TOGETHER


def test_jobs_with_strategies_train_on_hosts_of_their_own(bench: Bench, tmp_path: Path) -> None:
    """A host's place in its job is its number in the strategy. Weights are those of single-process SGD."""
    (outcome,) = bench.run(HYBRID, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    a, b = singly([record])
    for job in (a, b):
        assert job["status"] == "done", job["error"]
        assert job["accuracy"]["weights_equal"]
        assert all(check["ok"] for check in checks(job, wire.ABOUT.name)), "bytes of all jobs are expected"
        assert job["metrics"]["iteration_predicted_s"] > 0
    assert {(pair["from"], pair["to"]) for pair in a["pairs"]} == {("h3", "h1"), ("h1", "h3")}
    assert all(pair["mp_bytes"] > 0 for pair in a["pairs"])
    assert {pair["from"] for pair in b["pairs"]} == {"h0", "h2"}


def test_circuits_of_the_next_job_are_patched_while_one_runs(bench: Bench, tmp_path: Path) -> None:
    """Patching takes as long as a trial; light of the second job's circuits comes when the first has ended. Circuits of
    two servers that run on are not touched."""
    (outcome,) = bench.run(IN_TURN, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    first, beside, second = singly([record])
    for job in (first, beside, second):
        assert job["status"] == "done", job["error"]
        assert job["sums"]["wrong_elements"] == 0
        assert all(check["ok"] for check in checks(job, wire.ABOUT.name)), "bytes of all jobs are expected"
    assert first.get("dark_s") is None
    assert 0 < second["dark_s"] < second["started_s"] - first["started_s"]
    (event,) = record["events"]
    assert (event["kind"], event["what"], event["error"]) == ("circuits", "circuits of the job second", None)
    assert event["takes_s"] == 0


def test_a_death_fails_its_own_job_alone(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(TRAINED, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    a, b = singly([record])
    assert (a["status"], b["status"]) == ("failed", "done")
    assert "a/h0" in a["error"]
    assert "SIGKILL" in a["error"]
    assert [*outcome.jobs] == ["b"]
    assert b["accuracy"]["weights_equal"]
    assert b["accuracy"]["training_error"] <= b["accuracy"]["training_allowed"]
