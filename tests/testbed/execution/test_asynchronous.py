"""Asynchronous parameter servers in a real lab: stragglers, what is recorded, and what happens when one dies."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from testbed.execution.execute import Outcome

from ..bench import Bench
from ..records import carried_what_the_forest_says, check

pytestmark = pytest.mark.lab

TRAINED = """
name: asynchronous
links: {rate: 200 Mbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 8
  learning_rate: 0.05
  momentum: 0.5
  compute: {mode: paced, pace: {4: 0.1 s}}
perturb: [{kind: slow, workers: [h0], slowdown: 4}]
arms:
  - {label: PS, topology: star(hosts=4), scheme: ps(colocated=false)}
  - {label: SSP, topology: star(hosts=4), scheme: ssp(staleness=1)}
  - {label: async, topology: star(hosts=4), scheme: async_ps}
timeout: 20 s
retries: 0
quiet: 0 s
"""
PLAYED = """
name: played
links: {rate: 40 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 200, compute: {mode: paced, pace: {32: 0.1 s}}}
perturb: [{kind: jitter, sigma: 50 ms}]
arms:
  - {label: async, topology: star(hosts=4), scheme: async_ps}
retries: 0
quiet: 0 s
"""


@pytest.fixture(scope="module")
def trained(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """By label, what became of each arm."""
    outcomes = bench.run(TRAINED, tmp_path_factory.mktemp("asynchronous"))
    return {one.record["label"]: one for one in outcomes}


def test_a_straggler_holds_up_least_where_nobody_waits_for_it(trained: dict[str, Outcome]) -> None:
    """A third of PS's time on a quiet machine; on a busy one all workers are slow."""
    jct_s = {label: one.record["metrics"]["jct_s"] for label, one in trained.items()}
    assert jct_s["async"] < 0.9 * jct_s["SSP"]
    assert jct_s["async"] < 0.8 * jct_s["PS"]


@pytest.mark.parametrize(("label", "most"), [("SSP", 6), ("async", 23)])
def test_weights_are_those_of_the_same_updates_in_one_process(
    trained: dict[str, Outcome], label: str, most: int
) -> None:
    record = trained[label].record
    assert (record["status"], record["error"]) == ("done", None)
    accuracy = record["accuracy"]
    assert accuracy["reference"] == "a single process that makes the server's updates in their order"
    assert accuracy["weights_equal"] is True
    assert accuracy["weights_error"] < 1e-6
    assert [iteration for iteration, _ in accuracy["curve"]] == [0, 7], "as many as the bench asks for"
    metrics = record["metrics"]
    assert 0 < metrics["staleness_median"] <= metrics["staleness_p95"] <= metrics["staleness_max"] <= most
    assert check(record, "staleness")["limit"] == most
    assert metrics["throughput_sps"] == pytest.approx(3 * 8 * 4 / metrics["jct_s"])


def test_the_bytes_of_each_link_are_those_of_its_workers_updates(trained: dict[str, Outcome]) -> None:
    for one in trained.values():
        carried_what_the_forest_says(one.record)
        assert check(one.record, "bytes on the wire")["ok"]
    links = {(link["from"], link["to"]): link["theory_bytes"] for link in trained["async"].record["links"]}
    assert links["h0", "s0"] < links["h1", "s0"]  # the slow one made fewer updates


def test_samples_tell_of_every_update(trained: dict[str, Outcome]) -> None:
    samples, synchronous = trained["SSP"].samples, trained["PS"].samples
    assert samples is not None
    assert synchronous is not None
    samples = samples.sort_values("update")
    assert samples["update"].tolist() == list(range(24))
    assert (samples["staleness"] == samples["update"] - samples["version"]).all()
    assert (samples["sum_s"] - samples["ready_s"] - samples["held_s"] > 0).all()
    assert samples.groupby("rank")["held_s"].max()[1:].min() > 0.1  # those that are ahead of rank 0
    assert "staleness" not in synchronous


def test_a_replica_has_every_update_of_its_server(bench: Bench, tmp_path: Path) -> None:
    spec = PLAYED.replace("star(hosts=4), scheme: async_ps", "star(hosts=5), scheme: async_ps(replication=chain)")
    (outcome,) = bench.run(spec, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert record["sums"]["wrong_elements"] == 0
    loaded = [link for link in record["links"] if (link["from"], link["to"]) != ("h4", "s0")]  # it sends words alone
    carried_what_the_forest_says({**record, "links": loaded})
    links = {(link["from"], link["to"]): link["theory_bytes"] for link in record["links"]}
    assert links["h4", "s0"] == 0
    assert links["s0", "h4"] == links["s0", "h3"] == pytest.approx(links["h3", "s0"] / 2)


def test_a_profiles_sums_are_checked_by_every_worker(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(PLAYED, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert record["sums"]["wrong_elements"] == 0
    assert record["sums"]["checked_elements"] == 12 * record["metrics"]["wire_bytes_theory"] / (2 * 12 * 4)


def test_a_server_that_dies_fails_the_trial_by_name(bench: Bench, tmp_path: Path) -> None:
    """As workers that others wait for do, see ``test_dead_nodes.py``."""
    dying = PLAYED.replace("jitter, sigma: 50 ms", "kill, nodes: h3, at: 0.3 s")
    (outcome,) = bench.run(dying.replace("iterations: 4", "iterations: 40"), tmp_path)
    assert outcome.record["status"] == "failed"
    assert "the server on h3 was killed by SIGKILL" in outcome.record["error"]


SEVERAL = TRAINED.replace("star(hosts=4)", "star(hosts=5)").replace("name: asynchronous", "name: several")


def test_versions_of_several_servers_are_repeated_as_vectors(bench: Bench, tmp_path: Path) -> None:
    arms = "arms:\n  - {label: two, topology: star(hosts=5), scheme: 'ssp(staleness=1,servers=2)'}\ntimeout"
    spec = SEVERAL[: SEVERAL.index("arms:")] + arms + SEVERAL[SEVERAL.index(": 20 s") :]
    (outcome,) = bench.run(spec, tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    assert record["accuracy"]["weights_equal"] is True
    assert record["accuracy"]["weights_error"] < 1e-6
    assert check(record, "staleness")["ok"]
    carried_what_the_forest_says(record)
    links = {(link["from"], link["to"]): link["theory_bytes"] for link in record["links"]}
    assert links["h3", "s0"] == links["h4", "s0"] == pytest.approx(sum(links[f"h{i}", "s0"] for i in range(3)) / 2)
    samples = outcome.samples
    assert samples is not None
    stale = [samples["update"] - samples["version"], samples["update_1"] - samples["version_1"]]
    assert (samples["staleness"] == pd.concat(stale, axis=1).max(axis=1)).all()
    assert sorted(samples["update_1"]) == list(range(24))
