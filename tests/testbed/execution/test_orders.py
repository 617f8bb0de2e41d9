"""An order of ranks, end to end: the same bytes and weights in the order of numbers, and the same weights in any."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from testbed.topologies.build import build
from testbed.topologies.cloud import places

from ..bench import Bench
from ..records import check

SPEC = """
name: orders
links: {rate: 200 Mbit/s}
workload: {model: resnet8, dataset: digits, batch: 2, iterations: 2, compute: none}
arms:
  - {topology: star(hosts=3), scheme: ring}
  - {topology: star(hosts=3), scheme: ring, order: [h0, h1, h2]}
  - {topology: star(hosts=3), scheme: ring, order: [h2, h0, h1]}
"""


FOUND = """
name: found
links: {rate: 1 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 16, iterations: 3, scale: 10, compute: none}
arms:
  - {topology: "cloud(rows=1,racks=2,hosts_per_rack=2,oversubscription=2)", scheme: ring, order: best}
  - {topology: "cloud(rows=1,racks=2,hosts_per_rack=2,oversubscription=2)", scheme: ring, order: worst}
"""


@pytest.mark.lab
def test_hosts_find_the_order_in_which_their_racks_are_left_least(bench: Bench, tmp_path: Path) -> None:
    best, worst = (outcome.record for outcome in bench.run(FOUND, tmp_path))
    racks = places(build("cloud(rows=1,racks=2,hosts_per_rack=2,oversubscription=2)", rate_bps=10**8)).racks
    crossings = []
    for record in (best, worst):
        assert record["status"] == "done", record["error"]
        (found,) = record["found"]
        assert found["search"]["proven"], found
        rack = [racks[int(name[1:])] for name in found["search"]["order"]]
        crossings.append(sum(a != b for a, b in zip(rack, [*rack[1:], rack[0]], strict=True)))
    assert crossings == [2, 4]
    assert best["metrics"]["gst_median_s"] < worst["metrics"]["gst_median_s"]


LINEAR = """
name: linear
links: {rate: 10 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 16, iterations: 2, scale: 100, compute: none}
arms: [{topology: "CLOUD", scheme: ring, order: best(model=linear)}]
"""
WITHOUT_DELAY = "cloud(rows=1,racks=2,hosts_per_rack=2,oversubscription=6,rack_delay_s=0)"


@pytest.mark.lab
def test_a_linear_cost_finds_racks_by_bandwidth_where_round_trips_tell_nothing(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(LINEAR.replace("CLOUD", WITHOUT_DELAY), tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    (found,) = outcome.record["found"]
    assert found["probe"] == "linear"
    racks = places(build(WITHOUT_DELAY, rate_bps=10**8)).racks
    near, far = (
        [
            found["measured"][f"h{a}"][4 + b] * 1e8
            for a, b in combinations(range(4), 2)
            if (racks[a] == racks[b]) is within
        ]
        for within in (True, False)
    )
    assert max(near) < 2 < min(far), "a bit takes longer where both pairs of a round share an uplink"
    rack = [racks[int(name[1:])] for name in found["search"]["order"]]
    assert sum(a != b for a, b in zip(rack, [*rack[1:], rack[0]], strict=True)) == 2


@pytest.mark.lab
def test_a_trial_that_fails_keeps_the_order_that_was_found(bench: Bench, tmp_path: Path) -> None:
    killed = FOUND[: FOUND.rindex("  - {topology")].replace(
        "order: best", "order: best, perturb: [{kind: kill, nodes: h1, at: iteration 1}]"
    )
    (outcome,) = bench.run(killed, tmp_path)
    assert outcome.record["status"] == "failed"
    assert sorted(outcome.record["found"][0]["search"]["order"]) == ["h0", "h1", "h2", "h3"]


@pytest.mark.lab
def test_weights_are_those_of_a_single_process_in_any_order(bench: Bench, tmp_path: Path) -> None:
    plain, same, other = (outcome.record for outcome in bench.run(SPEC, tmp_path))
    for record in (plain, same, other):
        assert record["status"] == "done", record["error"]
        assert record["accuracy"]["weights_error"] < 1e-6
        assert record["accuracy"]["weights_equal"]
        wire = check(record, "bytes on the wire")
        assert wire["ok"], wire
    assert same["accuracy"]["weights_error"] == pytest.approx(plain["accuracy"]["weights_error"])
