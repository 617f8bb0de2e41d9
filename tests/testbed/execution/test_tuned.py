"""Trials whose workers are told other plans: they switch all at once, and the record follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.control import registry
from testbed.topologies.build import build
from testbed.topologies.call import parse
from testbed.topologies.cloud import places

from ..bench import Bench
from ..doubles.shuffling import Shuffling, line
from ..records import check

pytestmark = pytest.mark.lab

SPEC = """
name: tuned
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 8
  iterations: 60
  learning_rate: 0.01
  compute: {mode: paced, pace: {8: 15 ms}}
  chunk: 4 KiB
arms: [{topology: star(hosts=4), scheme: "two_level(groups=[[0,1],[2,3]],classes=3,tune=true)"}]
timeout: 20 s
retries: 0
quiet: 0 s
"""


@pytest.fixture
def shuffling(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(registry.BUILT_IN, "autotune", (Shuffling.__module__, "Shuffling"))
    return monkeypatch


def ran(bench: Bench, folder: Path, spec: str = SPEC) -> tuple[dict[str, Any], Any]:
    (outcome,) = bench.run(spec, folder)
    return outcome.record, outcome.samples


def test_all_switch_to_each_plan_and_weights_are_those_of_a_single_process(
    bench: Bench, tmp_path: Path, shuffling: pytest.MonkeyPatch
) -> None:
    shuffling.setattr(Shuffling, "broken", ("{", line(1, [[-1, 0, 0, 0]] * 3), line(2, [[-1, 0, 0, 0]] * 5)))
    shuffling.setattr(Shuffling, "ahead", 2)
    record, samples = ran(bench, tmp_path)
    assert record["status"] == "done", record["error"]
    assert record["sums"]["checked_sums"] == 60, "no step is lost"
    assert record["accuracy"]["weights_equal"] is True
    assert check(record, "bytes on the wire")["ok"]
    numbers = samples.groupby("iteration")["plan"].agg(["min", "max"])
    assert (numbers["min"] == numbers["max"]).all()
    followed = numbers["min"].drop_duplicates()
    assert followed.tolist() == [0, 1, 3, 4], "the second plan was told first of another model"
    assert [(one["first"], one["cause"]) for one in record["phases"]] == [
        (0, "beginning"),
        *((first, "shuffled") for first in followed.index[1:]),
    ]
    left_out = [event["what"].split(" leaves out ")[1] for event in record["events"] if event["kind"] == "plan"]
    assert any(why.startswith("a line that is no plan") for why in left_out)
    assert "plan 1: it is told twice" in left_out or any("plan 1: it comes late" in why for why in left_out)
    assert any("plan 2: its parents are int64[5, 4], not int[3, 4]" in why for why in left_out)
    assert all(event["done_s"] is not None and not event["error"] for event in record["events"])


def test_masters_move_within_the_groups_that_hosts_have_found(bench: Bench, tmp_path: Path) -> None:
    cloud = "cloud(racks=2,hosts_per_rack=2,oversubscription=2)"
    spec = SPEC.replace("topology: star(hosts=4)", f'topology: "{cloud}"')
    spec = spec.replace("groups=[[0,1],[2,3]],", "groups=probed,k=2,").replace("iterations: 60", "iterations: 25")
    record, samples = ran(bench, tmp_path, spec)
    assert record["status"] == "done", record["error"]
    (found,) = record["found"]
    groups = parse(found["settings"]["scheme"], "ring").arguments["groups"]
    racks = places(build(cloud, rate_bps=10**9)).groups
    assert {frozenset(group) for group in groups} == {frozenset(f"h{host}" for host in rack) for rack in racks}
    assert samples["plan"].max() > 0, "three classes are not even loads for four hosts"
    assert all(sum(step["global_masters"].values()) == 3 for step in record["tuning"])
    assert record["accuracy"]["weights_equal"] is True
    assert check(record, "bytes on the wire")["ok"], "bytes are those of the found plan, and of those after it"


def test_a_worker_that_is_killed_at_a_switch_ends_the_trial(
    bench: Bench, tmp_path: Path, shuffling: pytest.MonkeyPatch
) -> None:
    shuffling.setattr(Shuffling, "most", 1000)
    shuffling.setattr(Shuffling, "ahead", 3)
    killed = SPEC.replace("timeout: 20 s", "perturb: [{kind: kill, nodes: h2, at: iteration 20}]\ntimeout: 20 s")
    record, _ = ran(bench, tmp_path, killed)
    assert record["status"] == "failed"
    assert record["error"].startswith("after perturb had killed h2: ")
