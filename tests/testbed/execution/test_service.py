"""Jobs that share a box in a real lab: their sums and weights, the bytes of all, and what the death of one changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from testbed.execution.execute import Outcome

from ..bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: service
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 8
  learning_rate: 0.05
  momentum: 0.5
  compute: {mode: paced, pace: {4: 0.15 s}}
arms:
  - label: no tenant
    topology: "star(hosts=6,server_nics=2,routing=every_nic)"
    service: pbox
    jobs: [{name: a, scheme: service, hosts: [h3, h0]}, {name: b, scheme: service, hosts: 3}]
    perturb: [{kind: kill, nodes: [h0], at: 0.5 s}]
  - label: no core
    topology: "star(hosts=6,server_nics=2,routing=every_nic)"
    service: pbox
    jobs: [{name: a, scheme: service, hosts: [h3, h0]}, {name: b, scheme: service, hosts: 3}]
    perturb: [{kind: kill, nodes: [h5.core1], at: 0.5 s}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
SILENT = """
name: silent
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 12
  learning_rate: 0.05
  compute: {mode: paced, pace: {4: 0.15 s}}
arms:
  - label: two silent tenants
    topology: "star(hosts=7,server_nics=2,routing=every_nic)"
    service: pbox
    jobs:
      - {name: frozen, scheme: service, hosts: [h0, h1]}
      - {name: apart, scheme: service, hosts: [h2, h3]}
      - {name: well, scheme: service, hosts: [h4, h5]}
    perturb:
      - {kind: freeze, hosts: [frozen/h0], at: 1 s}
      - {kind: down, links: [h2-s0], at: 1 s}
timeout: 4 s
retries: 0
quiet: 0 s
"""
PLAYED = """
name: service
links: {rate: 20 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 200, compute: {mode: paced, pace: {32: 0.1 s}}}
arms:
  - label: service
    topology: "star(hosts=6,server_nics=2,routing=every_nic)"
    service: pbox(aggregation=wide)
    jobs:
      - {name: a, scheme: service, hosts: [h3, h0]}
      - {name: b, scheme: service, hosts: 3, model: alexnet}
  - label: by worker
    topology: "star(hosts=5,server_nics=2,routing=every_nic)"
    service: pbox(affinity=worker)
    jobs: [{name: a, scheme: service, hosts: 2, copies: 2}]
  - {label: boxes of their own, topology: star(hosts=6), jobs: [{name: a, scheme: pbox, hosts: 3, copies: 2}]}
retries: 0
quiet: 0 s
"""


@pytest.fixture(scope="module")
def trained(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """By label, what became of each arm."""
    return {one.record["label"]: one for one in bench.run(SPEC, tmp_path_factory.mktemp("service"))}


def test_a_tenant_that_is_killed_fails_alone_and_the_others_have_the_references_weights(
    trained: dict[str, Outcome],
) -> None:
    record = trained["no tenant"].record
    assert record["status"] == "done", record["error"]
    a, b = record["jobs"]
    assert (a["status"], b["status"], b["error"]) == ("failed", "done", None)
    assert "a/h0 was killed by SIGKILL" in a["error"]
    assert b["served_by"] == ["h5"]
    assert b["accuracy"]["weights_equal"] is True
    assert b["sums"]["checked_sums"] == 8
    assert not wrong(b)


def test_all_jobs_fail_with_a_core_of_their_service(trained: dict[str, Outcome]) -> None:
    record = trained["no core"].record
    assert record["status"] == "failed"
    assert record["error"].startswith("after perturb had killed h5.core1: the process h5.core1 was killed by SIGKILL")


def wrong(job: dict[str, Any]) -> list[dict[str, Any]]:
    """List a job's checks that failed for another reason than a busy machine. A kill that came late is such a reason,
    as is a burst that was measured badly. One that was not carried out is none."""
    failed = [check for check in job["fidelity"]["checks"] if not check["ok"] and not check["machine"]]
    return [check for check in failed if check["name"] not in ("events", "link rate") or check["value"] is None]


def test_tenants_that_are_frozen_or_cut_off_fail_alone_and_are_named(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SILENT, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    frozen, apart, well = record["jobs"]
    assert (well["status"], well["error"]) == ("done", None)
    assert well["accuracy"]["weights_equal"] is True
    assert not wrong(well)
    for job, host in ((frozen, "h0"), (apart, "h2")):
        assert job["status"] == "failed"
        # A core waits for a key from it, or for it to take a value, or it waits for a core itself.
        said = rf"waits for (key \d+ from {host}\b|{host} to take)|\b{host} made no progress .* waits for .*key \d+"
        assert re.search(said, job["error"]), job["error"]


@pytest.mark.parametrize(
    "labels", [("service",), pytest.param(("by worker", "boxes of their own"), marks=pytest.mark.rehearse)]
)
def test_sums_are_right_by_job_and_links_carry_the_bytes_of_all_jobs(
    bench: Bench, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    outcomes = bench.run(PLAYED, tmp_path, labels=labels)
    assert len(outcomes) == len(labels)
    for outcome in outcomes:
        record = outcome.record
        assert record["status"] == "done", record["error"]
        for job in record["jobs"]:
            assert (job["status"], job["error"]) == ("done", None)
            assert job["sums"]["checked_elements"] > 0
            assert job["sums"]["wrong_elements"] == 0
            assert not wrong(job)
        assert all(link["theory_bytes"] for link in record["links"]), "no NIC is dark"
        for link in record["links"]:
            assert 0.97 < link["bytes"] / link["theory_bytes"] < 1.5, link
        wires = [check for check in record["fidelity"]["checks"] if check["name"] == "bytes on the wire"]
        assert len(wires) == 2
        assert all(abs(wire["value"]) < 0.03 for wire in wires), wires
