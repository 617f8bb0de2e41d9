"""Several jobs on one network in simulated time: links that they share, hosts that they wait for, and their record."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, execute
from testbed.execution.simulated import Simulator
from testbed.experiment.expand import trials
from testbed.lab.simulator.place import LIMITS
from testbed.spec import read
from testbed.trial.model import Trial

from ..bench import fits_schema

SPEC = """
name: simulated-jobs
lab: simulator
seed: 3
links: {rate: 1 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 6, compute: {mode: paced, pace: {32: 300 ms}}}
"""
STAR = "topology: star(hosts=8)"
RACKS = "topology: 'spine_leaf(racks=2,hosts_per_rack=4,spines=1)'"
RING = "{name: a, scheme: ring, hosts: [h0, h1, h2, h3]}"
HYBRID = (
    "workload={kind: profile, model: dlrm_tiny, batch: 16, iterations: 4, scale: 4, "
    "compute: {mode: paced, pace: {16: 50 ms}}}",
    "links.rate=100 Mbit/s",
)
TABLES = "scheme: ring, strategy: {e0: [0], e1: [1, 3], e2: [0, 2], rest: all}"

HALVES = [("a", "h0, h1, h2, h3"), ("b", "h4, h5, h6, h7")]
LATE = [("a", "[h0, h1]", 500), ("b", "[h2, h3]", 900)]


def played(folder: Path, arm: str, *changes: str) -> tuple[Trial, Outcome]:
    (trial,) = trials(read(SPEC, "spec.yaml", Path(), [f"arms=[{{{arm}}}]", *changes]))
    place = Simulator(LIMITS)
    place.require(trial)
    with Referee() as referee:
        outcome = execute(trial, place, referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    assert (outcome.record["status"], outcome.record["error"]) == ("done", None)
    assert outcome.record["fidelity"]["verdict"] == "SIMULATED"
    return trial, outcome


def of(outcome: Outcome, job: str) -> pd.DataFrame:
    return outcome.jobs[job]


def gst_s(samples: pd.DataFrame) -> list[float]:
    by = samples.groupby("iteration")
    return list(by["sum_s"].max() - by["ready_s"].max())


@pytest.mark.parametrize("overlap", ["none", "layer"])
def test_jobs_on_links_of_their_own_take_as_long_as_each_alone(tmp_path: Path, overlap: str) -> None:
    jobs = {"a": "scheme: ring, hosts: [h0, h2, h4, h6]", "b": "scheme: ps, hosts: [h1, h3, h5]"}
    more = f"workload.overlap={overlap}", "links.rate=200 Mbit/s"
    both = ", ".join(f"{{name: {name}, {job}}}" for name, job in jobs.items())
    _, together = played(tmp_path, f"{STAR}, jobs: [{both}]", *more)
    for name, job in jobs.items():
        _, alone = played(tmp_path, f"{STAR}, jobs: [{{name: {name}, {job}}}]", *more)
        assert len(of(together, name))
        for column in ("start_s", "ready_s", "sum_s", "end_s"):
            np.testing.assert_allclose(of(together, name)[column], of(alone, name)[column], rtol=0, atol=1e-9)


def test_a_job_alone_takes_as_long_as_an_arm_with_its_scheme(tmp_path: Path) -> None:
    _, job = played(tmp_path, "topology: star(hosts=4), jobs: [{name: a, scheme: ring, hosts: 4}]")
    _, arm = played(tmp_path, "topology: star(hosts=4), scheme: ring")
    assert arm.samples is not None
    np.testing.assert_allclose(of(job, "a")["end_s"], arm.samples["end_s"], rtol=1e-6)


def test_jobs_under_a_strategy_on_links_of_their_own_take_as_long_as_each_alone(tmp_path: Path) -> None:
    hosts = {"a": "[h0, h2, h4, h6]", "b": "[h1, h3, h5, h7]"}
    jobs = {name: f"{{name: {name}, hosts: {some}, {TABLES}}}" for name, some in hosts.items()}
    _, together = played(tmp_path, f"{STAR}, jobs: [{', '.join(jobs.values())}]", *HYBRID)
    for name, job in jobs.items():
        _, alone = played(tmp_path, f"{STAR}, jobs: [{job}]", *HYBRID)
        assert (of(alone, name)["mp_wait_forward_s"] > 0).any()
        for column in ("ready_s", "end_s", "mp_wait_forward_s", "mp_wait_backward_s"):
            np.testing.assert_allclose(of(together, name)[column], of(alone, name)[column], rtol=0, atol=1e-9)


def test_two_equal_rings_that_share_each_link_take_twice_as_long(tmp_path: Path) -> None:
    """Both cross the two links between racks, one way each, and nothing else is as slow."""
    one = "{name: a, scheme: ring, hosts: [h0, h4]}"
    other = "{name: b, scheme: ring, hosts: [h1, h5]}"
    more = "workload.compute=none", "links={rate: 1 Gbit/s, level 2: {rate: 100 Mbit/s}}"
    _, alone = played(tmp_path, f"{RACKS}, jobs: [{one}]", *more)
    _, both = played(tmp_path, f"{RACKS}, jobs: [{one}, {other}]", *more)
    expected_s = 2 * np.median(gst_s(of(alone, "a")))
    for name in ("a", "b"):
        took_s = of(both, name).groupby("iteration")["end_s"].max().diff().dropna()
        assert took_s.median() == pytest.approx(expected_s, rel=0.02)
    whole_s = max(of(both, name)["end_s"].max() for name in ("a", "b"))
    assert whole_s == pytest.approx(2 * of(alone, "a")["end_s"].max(), rel=0.02)


def test_jobs_wait_for_hosts_and_begin_when_others_have_ended(tmp_path: Path) -> None:
    jobs = "{name: a, scheme: ring, hosts: 4}, {name: c, scheme: ring, hosts: 6, start: 1 s, copies: 2}"
    trial, outcome = played(tmp_path, f"{STAR}, jobs: [{jobs}]")
    assert [job.own_slot.after for job in trial.jobs] == [(), ("a",), ("c-1",)]
    first, second, third = outcome.record["jobs"]
    ends_s = {name: float(of(outcome, name)["end_s"].max()) for name in ("a", "c-1")}
    assert (first["submitted_s"], first["started_s"], first["queued_s"], first["begun_s"]) == (0, 0, 0, 0)
    assert second["started_s"] == second["begun_s"] == pytest.approx(ends_s["a"], abs=1e-6)
    assert second["queued_s"] == pytest.approx(ends_s["a"] - 1, abs=1e-6)
    assert third["started_s"] == pytest.approx(ends_s["c-1"], abs=1e-6)
    assert outcome.record["metrics"]["jct_s"] == pytest.approx(float(of(outcome, "c-2")["end_s"].max()))


@pytest.mark.parametrize(("look_ahead", "dark_s"), [("true", 0.5), ("false", 3.0)])
def test_hosts_wait_for_the_circuits_of_their_next_job(tmp_path: Path, look_ahead: str, dark_s: float) -> None:
    """The first job takes 2.5 s and a little. Ahead, patching begins with it, and takes 3 s."""
    panels = f"'patch_panel(servers=6,degree=2,rings=[1],look_ahead={look_ahead},reconfiguration_s=3)'"
    jobs = (
        "{name: a, scheme: 'multi_ring(strides=[1,5])', hosts: 6}, {name: b, hosts: 6, rings: [[0,2,4,1,3,5]], "
        "scheme: 'multi_ring(permutations=[[0,2,4,1,3,5],[5,3,1,4,2,0]])'}"
    )
    more = "links.rate=100 Gbit/s", "workload.iterations=5", "workload.compute={mode: paced, pace: {32: 500 ms}}"
    _, outcome = played(tmp_path, f"topology: {panels}, jobs: [{jobs}]", *more)
    first, second = outcome.record["jobs"]
    free_s = float(of(outcome, "a")["end_s"].max())
    assert 2.5 < free_s < 2.8
    assert "dark_s" not in first
    assert second["dark_s"] == pytest.approx(3.0 if look_ahead == "false" else 3.0 - free_s, abs=1e-6)
    assert second["dark_s"] == pytest.approx(dark_s, abs=0.3)
    assert second["started_s"] == pytest.approx(free_s + second["dark_s"], abs=1e-6)
    assert [event["what"] for event in outcome.record["events"]] == ["circuits of the job b"]


def test_a_job_begins_when_it_is_submitted(tmp_path: Path) -> None:
    late = "{name: b, scheme: ring, hosts: [h4, h5], start: 750 ms}"
    _, outcome = played(tmp_path, f"{STAR}, jobs: [{RING}, {late}]")
    assert of(outcome, "b")["start_s"].min() == 0.75
    assert outcome.record["jobs"][1]["started_s"] == 0.75


def test_changes_count_from_the_first_jobs_first_iteration(tmp_path: Path) -> None:
    """The first one begins at 500 ms, so its link halves at 800 ms, when its first gradient is ready."""
    late = [f"{{name: {name}, scheme: ring, hosts: {hosts}, start: {start} ms}}" for name, hosts, start in LATE]
    _, calm = played(tmp_path, f"{STAR}, jobs: [{', '.join(late)}]")
    change = "perturb=[{kind: rate, links: [h0], share: 50 %, at: 300 ms}]"
    _, changed = played(tmp_path, f"{STAR}, jobs: [{', '.join(late)}]", change)
    assert gst_s(of(changed, "a")) == pytest.approx([2 * took_s for took_s in gst_s(of(calm, "a"))], rel=1e-3)
    assert gst_s(of(changed, "b")) == pytest.approx(gst_s(of(calm, "b")))
    assert changed.record["jobs"][0]["events"][0]["begun_s"] == pytest.approx(0.3)


def test_the_same_spec_has_the_same_samples_to_the_last_bit(tmp_path: Path) -> None:
    jobs = f"{RING}, {{name: b, scheme: halving_doubling, hosts: 4}}"
    tables = []
    for _ in range(2):
        _, outcome = played(
            tmp_path, f"{STAR}, jobs: [{jobs}]", "perturb=[{kind: straggle, probability: 0.3, slowdown: 2}]"
        )
        each = []
        for name in ("a", "b"):
            of(outcome, name).to_parquet(table := io.BytesIO())
            each.append(table.getvalue())
        tables.append(each)
    assert tables[0] == tables[1]


def test_links_carry_the_bytes_of_all_jobs(tmp_path: Path) -> None:
    jobs = f"{RING}, {{name: b, scheme: ps, hosts: 4}}"
    _, outcome = played(tmp_path, f"{RACKS}, jobs: [{jobs}]")
    assert sum(link["theory_bytes"] > 0 for link in outcome.record["links"]) >= 16
    for link in outcome.record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=1e-6, abs=2)


def test_the_error_of_a_job_is_that_of_its_scheme_beside_those_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"ring": {"worst": 0.01}, "ps": {"worst": 0.02}, "ring beside ps": {"worst": 0.03}}
    monkeypatch.setattr("testbed.fidelity.judgement.known_errors", lambda: rows)
    other = "{name: b, scheme: ps, hosts: 4}"
    for jobs, errors in ((RING, [0.01]), (f"{RING}, {other}", [0.03, None])):
        _, outcome = played(tmp_path, f"{STAR}, jobs: [{jobs}]")
        numbers = [job["fidelity"]["numbers"]["gst"] for job in outcome.record["jobs"]]
        assert [number["error"] for number in numbers] == errors


def test_other_tenants_flows_come_and_go_by_chance_beside_jobs(tmp_path: Path) -> None:
    arm = "topology: 'cloud(rows=1,racks=2,hosts_per_rack=4)', jobs: [{name: a, scheme: ring, hosts: [h0, h1, h4, h5]}]"
    more = "workload.iterations=12", "links.rate=200 Mbit/s"
    (tmp_path / "calm").mkdir()
    _, calm = played(tmp_path / "calm", arm, *more)
    assert calm.jobs is not None
    perturb = "perturb=[{kind: interference, flows: 6, mean_on: 500 ms, mean_off: 500 ms}]"
    _, outcome = played(tmp_path, arm, *more, perturb)
    assert sum("no longer" in event["what"] for event in outcome.record["events"]) > 5
    assert max(gst_s(of(outcome, "a"))) > 1.3 * max(gst_s(of(calm, "a")))
    links = outcome.record["links"]
    assert sum(link["other_bytes"] for link in links) > 10**7
    for link in links:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], rel=1e-6, abs=3)


def test_steps_of_jobs_jitter_each_by_its_own_draws(tmp_path: Path) -> None:
    both = ", ".join(f"{{name: {name}, scheme: tree, hosts: [{hosts}]}}" for name, hosts in HALVES)
    _, outcome = played(tmp_path, f"{STAR}, jobs: [{both}]", "perturb=[{kind: jitter, sigma: 20 ms, of: step}]")
    first, second = gst_s(of(outcome, "a")), gst_s(of(outcome, "b"))
    assert np.abs(np.subtract(first, second)).min() > 1e-6
    samples = of(outcome, "a")
    assert (samples["end_s"] >= samples["sum_s"]).all()
    assert (samples["sum_s"] > samples["ready_s"]).all()
