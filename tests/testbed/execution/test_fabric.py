"""Trials whose transfers a scheduler plans, in a real lab: what is applied, summed and dropped, and whether it is
right."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis import dictionary, transfers
from testbed.execution.execute import Outcome
from workloads.kinds.transfers import Purpose

from ..bench import Bench
from ..records import check

pytestmark = pytest.mark.lab

TRAINED = """
name: fabric
links: {rate: 200 Mbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 6
  learning_rate: 0.05
  momentum: 0.5
  compute: {mode: paced, pace: {4: 0.2 s}}
perturb: [{kind: slow, workers: [h0], slowdown: 4}]
arms:
  - {topology: star(hosts=8), scheme: "mlfabric_a(delay_bound=6,aggregators=2,rate=adaptive,c=0.5)"}
  - {topology: star(hosts=8), scheme: "mlfabric_ssp(staleness=1,aggregators=2)"}
timeout: 20 s
retries: 0
quiet: 0 s
"""
PLAYED = """
name: played
links: {rate: 100 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 200, compute: {mode: paced, pace: {32: 0.5 s}}}
arms:
  - {topology: star(hosts=6), scheme: "mlfabric_a(delay_bound=1000,aggregators=0,window=0)"}
  - {topology: star(hosts=5), scheme: async_ps}
retries: 0
quiet: 0 s
"""


def check_transfers(outcome: Outcome) -> None:
    """What was told of transfers goes together with the samples."""
    moved, samples = outcome.transfers, outcome.samples
    assert moved is not None
    assert samples is not None
    assert tuple(moved) == transfers.COLUMNS
    assert (moved["purpose"] == Purpose.WEIGHTS).sum() >= len(samples), "a worker gets some for each update"
    assert moved.loc[moved["purpose"] == Purpose.SUM, "members"].sum() >= (samples["fate"] == 1).sum()
    assert moved["start_s"].between(0, outcome.record["metrics"]["jct_s"]).all()
    assert (moved["end_s"] > moved["start_s"]).all()
    there = moved.loc[moved["purpose"] != Purpose.WEIGHTS]
    assert (there["arrived_s"] > there["start_s"]).all()
    assert dictionary.faults(json.loads(json.dumps(outcome.record))) == []
    assert 0 < outcome.record["metrics"]["scheduler_median_s"] <= outcome.record["metrics"]["scheduler_p99_s"] < 1


def test_weights_are_those_of_the_same_updates_and_sums_in_one_process(bench: Bench, tmp_path: Path) -> None:
    bounded, stale = bench.run(TRAINED, tmp_path)
    for outcome in (bounded, stale):
        record = outcome.record
        assert (record["status"], record["error"]) == ("done", None)
        accuracy = record["accuracy"]
        assert accuracy["reference"] == "a single process that makes the server's updates in their order"
        assert accuracy["weights_equal"] is True
        assert accuracy["weights_error"] < 1e-6
        assert outcome.samples is not None
        assert sorted(outcome.samples["update"]) == list(range(36))
        assert (outcome.samples["fate"] == 1).any(), "with momentum, so these are two sums each"
        assert record["metrics"]["staleness_max"] <= check(record, "staleness")["limit"]
        assert check(record, "bytes on the wire")["ok"]
        assert check(record, "lower bound")["ok"]
        check_transfers(outcome)
    assert check(bounded.record, "staleness")["limit"] == 5
    _the_slow_one_is_dropped(bounded.samples)
    _nobody_is_far_ahead(stale.samples)


def _the_slow_one_is_dropped(samples: pd.DataFrame | None) -> None:
    assert samples is not None
    dropped = samples[samples["fate"] == 2]
    assert 0 in set(dropped["rank"])
    assert dropped["arrived_s"].isna().all()
    assert (samples["arrived_s"].dropna() > 0).all()


def _nobody_is_far_ahead(samples: pd.DataFrame | None) -> None:
    assert samples is not None
    assert not (samples["fate"] == 2).any()
    counts = samples["rank"].value_counts()
    assert counts.max() - counts.min() <= 2
    assert samples.groupby("rank")["held_s"].max()[1:].min() > 0.1, "they wait for rank 0"


def test_synchronous_sums_are_right_whatever_ways_they_go(bench: Bench, tmp_path: Path) -> None:
    arm = "  - {topology: star(hosts=8), scheme: mlfabric_s(aggregators=2)}\ntimeout"
    head, _, rest = TRAINED.partition("  - {topology")
    (outcome,) = bench.run(head + arm + rest.partition("timeout")[2], tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    assert record["sums"]["checked_sums"] == 6
    assert record["accuracy"]["weights_equal"] is True
    assert record["accuracy"]["reference"] == "single-process SGD"
    assert record["metrics"]["gst_ratio"] > 1
    assert record["accuracy"]["training_error"] < 1e-4
    assert outcome.transfers is not None
    to_server = outcome.transfers[outcome.transfers["to"] == 6]
    assert to_server["members"].sum() == 36, "each gradient gets there once, alone or in a sum"
    assert check(record, "bytes on the wire")["ok"]
    assert check(record, "lower bound")["ok"]


def test_without_sums_bounds_and_window_it_is_an_asynchronous_server(bench: Bench, tmp_path: Path) -> None:
    scheduled, plain = (outcome.record for outcome in bench.run(PLAYED, tmp_path))
    for record in (scheduled, plain):
        assert (record["status"], record["error"]) == ("done", None)
        assert record["sums"]["wrong_elements"] == 0
        assert record["sums"]["checked_elements"] == plain["sums"]["checked_elements"]
    assert scheduled["metrics"]["jct_s"] == pytest.approx(plain["metrics"]["jct_s"], rel=0.05)
    assert scheduled["metrics"]["wire_bytes_theory"] == plain["metrics"]["wire_bytes_theory"]


@pytest.mark.parametrize("node", ["h1", "h7"])
def test_a_process_that_dies_fails_the_trial_by_name(bench: Bench, tmp_path: Path, node: str) -> None:
    dying = TRAINED.replace("slow, workers: [h0], slowdown: 4", f"kill, nodes: {node}, at: 0.3 s")
    dying = "\n".join(line for line in dying.splitlines() if "mlfabric_ssp" not in line)
    (outcome,) = bench.run(dying, tmp_path)
    assert outcome.record["status"] == "failed"
    assert f"perturb had killed {node}" in outcome.record["error"]
