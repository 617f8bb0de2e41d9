"""Trials that are perturbed, end to end in the lab."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.experiment.expand import trials
from testbed.spec import read
from tests.testbed.bench import Bench
from tests.testbed.records import check

pytestmark = pytest.mark.lab

SPEC = """
name: perturbed
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, scale: 4, iterations: 4, compute: {pace: {32: 0.4 s}}}
arms:
  - {topology: star(hosts=3), scheme: ps, perturb: [PERTURB]}
timeout: 6 s
"""


Run = Callable[..., tuple[dict[str, Any], pd.DataFrame]]


@pytest.fixture
def run(bench: Bench, tmp_path: Path) -> Run:
    """Runs the one trial with what is done to it: its record, and its samples if it was done."""

    def one(perturb: str, *, status: str = "done", spec: str = SPEC) -> tuple[dict[str, Any], Any]:
        (outcome,) = bench.run(spec.replace("PERTURB", perturb), tmp_path)
        assert outcome.record["status"] == status, outcome.record["error"]
        return outcome.record, outcome.samples

    return one


def test_a_slow_worker_takes_as_much_longer_as_it_should(run: Run) -> None:
    """An event that never comes is recorded as such."""
    record, samples = run("{kind: slow, workers: h1, slowdown: 2}, {kind: down, links: h0, at: 1000 s}")
    (event,) = record["events"]
    assert event["begun_s"] is None
    took = samples.assign(took=lambda frame: frame["ready_s"] - frame["start_s"])
    median = took.groupby("rank")["took"].median()
    assert 0.7 < median[1] < 1.3, "0.8 s, and what a busy machine adds"
    assert 0.35 < median[0] < 0.65
    assert took.groupby("rank")["factor"].first().tolist() == [1, 2, 1]


def test_what_is_drawn_by_chance_is_the_same_again(run: Run) -> None:
    """As when the spec is read anew."""
    chance = "{kind: straggle, probability: 50 %, slowdown: 1.5}, {kind: jitter, sigma: 50 ms}"
    spec = SPEC.replace("0.4 s", "0.1 s")
    record, samples = run(chance, spec=spec)
    drawn = samples.set_index(["rank", "iteration"])
    (again,) = trials(read(spec.replace("PERTURB", chance), "spec.yaml", Path()))
    stragglers = again.job.stragglers
    assert stragglers is not None
    for name, wanted in (("factor", stragglers.factor), ("extra_s", stragglers.extra_s)):
        assert drawn[name].unstack().to_numpy() == pytest.approx(np.asarray(wanted)), name
    assert set(drawn["factor"]) == {1.0, 1.5}
    straggle, jitter = record["strikes"]
    assert (straggle["perturbation"], straggle["struck"]) == ("straggle", (drawn["factor"] > 1).sum())
    assert (jitter["perturbation"], jitter["struck"]) == ("jitter", (drawn["extra_s"] > 0).sum())
    assert straggle["chances"] == jitter["chances"] == len(drawn)


def test_changes_for_a_while_show_in_the_synchronisations_that_they_hit(run: Run) -> None:
    """A slower link, and later one with a delay."""
    slower = "{kind: rate, links: h0, share: 25 %, at: iteration 1, until: iteration 3}"
    delayed = "{kind: impair, links: h0, delay: 100 ms, at: iteration 4, until: iteration 6}"
    record, samples = run(f"{slower}, {delayed}", spec=SPEC.replace("iterations: 4", "iterations: 7"))
    rates, delays, free_s = gst_of(record, samples)
    assert min(rates) > 1.8 * min(free_s)
    assert min(delays) > min(free_s) + 0.07, "100 ms, less what a busy machine adds to the others"
    assert record["sums"]["wrong_elements"] == 0
    assert record["sums"]["checked_elements"] > 0


def gst_of(record: dict[str, Any], samples: pd.DataFrame) -> tuple[list[float], list[float], list[float]]:
    """GST of the iterations that each of two changes lasted for, and of those that they left alone; changes are late on
    a busy machine."""
    events = record["events"]
    assert [event["error"] for event in events] == [None] * 4
    assert all(event["begun_s"] >= event["planned_s"] for event in events)
    last = samples.groupby("iteration")[["ready_s", "sum_s"]].max() - samples["start_s"].min()
    gst_s, free, hits = last["sum_s"] - last["ready_s"], pd.Series(True, last.index), []
    for begin, end in (events[:2], events[2:]):
        hits.append(gst_s[(last["ready_s"] > begin["done_s"]) & (last["sum_s"] < end["begun_s"])].tolist())
        free &= (last["sum_s"] < begin["begun_s"]) | (last["ready_s"] > end["done_s"])
    return hits[0], hits[1], gst_s[free].tolist()


def test_flows_that_compete_are_counted_and_not_taken_for_the_schemes(run: Run, tmp_path: Path) -> None:
    record, _ = run("{kind: background, from: h0, to: h1, rate: 40 Mbit/s, until: 1500 ms}")
    wire = check(record, "bytes on the wire")
    assert wire["ok"], wire
    (log,) = tmp_path.rglob("source0.log")
    sent = json.loads(log.read_text().splitlines()[-1])["sent_bytes"]
    assert 0.4 < sent / (40e6 / 4 / 8 * 1.5) < 1.2, "on a busy machine less than it was asked for"


TENANTS = """
name: tenants
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 3, compute: {pace: {32: 0.1 s}}}
arms:
  - topology: "cloud(racks=2,hosts_per_rack=2,oversubscription=2,seed=0,rack_delay_s=0)"
    jobs: [{name: a, scheme: ring, hosts: [h0, h1]}]
perturb: [{kind: interference, flows: 2, mean_on: 2 s, mean_off: 50 ms}]
timeout: 20 s
"""


def test_flows_of_other_tenants_share_uplinks_and_are_not_taken_for_the_jobs(run: Run) -> None:
    """The job's two hosts are in different racks, as are those that no job has."""
    record, _ = run("", spec=TENANTS)
    events = record["events"]
    assert {event["kind"] for event in events} == {"interference"}
    assert [event["error"] for event in events] == [None] * len(events)
    (job,) = record["jobs"]
    wire = check(job, "bytes on the wire")
    assert wire["ok"], wire
    assert job["metrics"]["gst_ratio"] > 1.2, "a flow takes half of an uplink while it sends"
    links = {(link["from"], link["to"]): link for link in record["links"]}
    for way in ((("h2", "tor0"), ("tor0", "row0"), ("tor1", "h3")), (("h3", "tor1"), ("row0", "tor0"), ("tor0", "h2"))):
        (sent_bytes,) = {links[ends]["other_bytes"] for ends in way}
        assert sent_bytes > 0
        for ends in way:  # acknowledgements of the other way are counted as nobody's
            beyond = links[ends]["bytes"] - links[ends]["theory_bytes"]
            assert 0 <= beyond < 0.02 * (sent_bytes + links[ends]["theory_bytes"]), links[ends]


def test_a_frozen_host_holds_all_up_and_nothing_is_lost(run: Run) -> None:
    record, _ = run("{kind: freeze, hosts: h2, at: 600 ms, until: 2800 ms}")
    assert record["sums"]["wrong_elements"] == 0
    assert record["sums"]["checked_elements"] > 0
    assert record["metrics"]["jct_s"] > 2.8  # 4 iterations take 2 s


def test_who_is_killed_is_named(run: Run) -> None:
    record, _ = run("{kind: kill, nodes: h1, at: iteration 1}", status="failed")
    assert record["error"].startswith("after perturb had killed h1: the worker on h1 was killed by SIGKILL")
    told = "remove the kill, with which this trial ends, or take a scheme that goes on when a node dies, such as rina"
    assert record["error"].endswith(f"\n  fix: {told}")
    assert record["by_perturb"]
    (event,) = record["events"]
    assert (event["kind"], event["what"], event["error"]) == ("kill", "h1 killed", None)
    assert 0 < event["planned_s"] <= event["begun_s"] <= event["done_s"]


def test_who_is_frozen_for_good_is_named_within_the_timeout(run: Run) -> None:
    record, _ = run("{kind: freeze, hosts: h1, at: 500 ms}", status="failed")
    assert record["error"].startswith("while perturb had h1 frozen: the worker on h")
    assert "\n  fix: let that end sooner (until), or give a longer timeout, or take a scheme that" in record["error"]
    assert record["by_perturb"]
    assert record["duration_s"] < 40


def test_hogs_take_cpu_time(run: Run) -> None:
    record, _ = run("{kind: hog, hosts: h0, cores: 4}", spec=SPEC.replace("iterations: 4", "iterations: 2"))
    headroom = check(record, "CPU headroom")
    assert headroom["value"] < 0.15
    for number in record["fidelity"]["numbers"].values():  # as near to its bound as on a quiet machine, or not believed
        assert number["certified"] or number["verdict"] == "INVALID"


def test_a_command_can_be_perturbed_too(run: Run) -> None:
    spec = """
name: perturbed
links: {rate: 200 Mbit/s}
workload: {kind: command, command: sleep 2}
arms:
  - {topology: star(hosts=2), perturb: [PERTURB]}
timeout: 20 s
"""
    flow = "{kind: background, from: h0, to: h1, rate: 10 Mbit/s, until: 1500 ms}"
    record, _ = run(f"{{kind: rate, links: h0, share: 25 %, at: 500 ms, until: 1 s}}, {flow}", spec=spec)
    assert [event["error"] for event in record["events"]] == [None] * 4
    begin = next(event for event in record["events"] if event["kind"] == "rate")
    assert 0.5 <= begin["begun_s"] < 2, "while the command is running"
    links = {(link["from"], link["to"]): link for link in record["links"]}
    for ends in (("h0", "s0"), ("s0", "h1")):  # the command sends nothing
        assert 0.4 < links[ends]["other_bytes"] / (10e6 / 8 * 1.5) < 1.3
        assert links[ends]["bytes"] < 0.05 * links[ends]["other_bytes"]


LOSSY = """
name: lossy
links: {rate: 2 Gbit/s, delay: 5 ms, jitter: 0.5 ms, loss: 0.1 %, reorder: 1 %, queue: 256 KiB}
workload: {kind: profile, model: lenet5, scale: 20, batch: 32, iterations: 3, compute: none}
arms: [{topology: star(hosts=4), scheme: ring}]
"""


def test_losses_that_were_asked_for_spoil_neither_calibration_nor_bytes(run: Run) -> None:
    record, _ = run("", spec=LOSSY)
    assert check(record, "link rate")["value"] > 0.2  # losses would leave TCP a few per cent
    assert check(record, "bytes on the wire")["value"] == pytest.approx(0, abs=0.01)
    assert check(record, "drops")["ok"]
    assert all(link["extra_bytes"] > 0 for link in record["links"])
