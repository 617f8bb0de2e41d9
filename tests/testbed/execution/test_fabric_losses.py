"""Processes of trials that MLfabric schedules are lost, and the others go on, in a real lab."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import WorkerError
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.experiment.expand import trials
from testbed.recovery.losses import Bystander
from testbed.spec import read
from testbed.workloads.kinds.fabric.fates import Fate

from ..bench import Bench
from ..records import check

pytestmark = pytest.mark.lab

FAILOVER_S = 1.5
SETTINGS = """
timeout: 20 s
retries: 0
quiet: 0 s
"""
SPEC = f"""
name: losses
links: {{rate: 200 Mbit/s}}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 10
  learning_rate: 0.05
  momentum: 0.5
  compute: {{mode: paced, pace: {{4: 0.15 s}}}}
arms:
  - topology: star(hosts=6)
    scheme: mlfabric_a(delay_bound=12,aggregators=3)
    label: killed
    perturb:
      - {{kind: kill, nodes: [h0], at: 0.4 s}}
      - {{kind: kill, nodes: [h1.daemon], at: 0.7 s}}
      - {{kind: kill, nodes: [h5], at: 1 s}}
  - topology: star(hosts=6)
    scheme: mlfabric_ssp(staleness=1,aggregators=3)
    label: silent
    perturb:
      - {{kind: freeze, hosts: [h3], at: 0.4 s, until: 60 s}}
      - {{kind: down, links: [h1], at: 0.5 s, until: 60 s}}
      - {{kind: down, links: [h5], at: 2.2 s, until: 60 s}}
  - topology: star(hosts=6)
    scheme: mlfabric_a(delay_bound=12,aggregators=3)
    label: unscheduled
    perturb: [{{kind: freeze, hosts: [h5], at: 0.7 s, until: 60 s}}]
  - topology: star(hosts=6)
    scheme: mlfabric_a(delay_bound=12,aggregators=3)
    label: returns
    checkpoint: {{every: 4, rate: 180 MB/s}}
    perturb: [{{kind: kill, nodes: [h4], at: 0.7 s}}]
  - topology: star(hosts=6)
    scheme: mlfabric_a(delay_bound=12,aggregators=3)
    label: stood
    checkpoint: {{every: 4, rate: 180 MB/s}}
    perturb: [{{kind: freeze, hosts: [h4], at: 0.7 s, until: 2.8 s}}]
failover: {FAILOVER_S} s
{SETTINGS}
"""
STAND_INS = f"""
name: stand-ins
links: {{rate: 200 Mbit/s}}
workload: WORKLOAD
arms:
ARMS
failover: {FAILOVER_S} s
{SETTINGS}
"""
HITS = {
    "server": ("h4", "{kind: kill, nodes: [h4], at: 0.5 s}"),
    "frozen": ("h4", "{kind: freeze, hosts: [h4], at: 0.5 s, until: 60 s}"),
    "replica": ("h5", "{kind: kill, nodes: [h5], at: 0.5 s}"),
    "cut replica": ("h5", "{kind: down, links: [h5], at: 0.5 s, until: 60 s}"),
    "worker": ("h1", ""),
}
"""Of a trial with a replica: who is lost, and what perturb does; nothing where somebody else kills that process alone.
A spec cannot name a worker without its daemon. Both ways to be silent, frozen and cut off, are there once."""
TRAINED = """{model: resnet8, dataset: digits, batch: 4, iterations: 8, learning_rate: 0.05, momentum: 0.5,
  compute: {mode: paced, pace: {4: 0.1 s}}}"""
FED = f"""
name: fed
links: {{rate: 200 Mbit/s}}
workload: {TRAINED}
arms:
  - topology: star(hosts=7)
    scheme: mlfabric_a(delay_bound=12,aggregators=2,divergence_bound=0.2)
    label: daemons
    perturb: [{{kind: kill, nodes: [h0.daemon], at: 0.4 s}}, {{kind: kill, nodes: [h1], at: 0.7 s}}]
  - topology: star(hosts=7)
    scheme: mlfabric_a(delay_bound=12,aggregators=2,divergence_updates=3)
    label: scheduler
    perturb: [{{kind: kill, nodes: [h2.daemon], at: 0.4 s}}, {{kind: kill, nodes: [h6], at: 0.7 s}}]
failover: {FAILOVER_S} s
{SETTINGS}
"""
OVER = f"""
name: over
links: {{rate: 200 Mbit/s}}
workload:
  {{kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 200, compute: {{pace: {{32: 0.2 s}}}}}}
arms:
  - {{topology: star(hosts=5), scheme: SCHEME, perturb: [{{kind: kill, nodes: [NODE], at: 0.3 s}}]}}
{SETTINGS}
"""
ROLES = {
    "killed": {"h0": ["worker", "daemon"], "h1": ["daemon"], "h5": ["scheduler"]},
    "silent": {"h1": ["worker", "daemon"], "h3": ["worker", "daemon"], "h5": ["scheduler"]},
    "unscheduled": {"h5": ["scheduler"]},
    "returns": {"h4": ["server"]},
    "stood": {"h4": ["server"]},
}
HITS_S = {
    "killed": {"h0": 0.4, "h1": 0.7, "h5": 1.0},
    "silent": {"h1": 0.5, "h3": 0.4, "h5": 2.2},
    "unscheduled": {"h5": 0.7},
    "returns": {"h4": 0.7},
    "stood": {"h4": 0.7},
}
AT_ONCE_S = 5
"""Beside other tests; on a quiet machine a claim asks for a second."""
FAILS_S = 10
"""So soon a trial has failed that cannot go on; on a quiet machine it takes 0.003 to 0.18 s, and its timeout is 20."""


@pytest.mark.parametrize(
    "labels", [("killed", "returns"), pytest.param(("silent", "unscheduled", "stood"), marks=pytest.mark.rehearse)]
)
def test_the_others_go_on(bench: Bench, tmp_path: Path, labels: tuple[str, ...]) -> None:
    killed = next(one for one in trials(read(SPEC, "spec.yaml", tmp_path)) if one.label == "killed")
    assert 1 in killed.job.plan.aggregators  # so updates of others are lost with h1.daemon, and are sent again
    outcomes = {one.record["label"]: one for one in bench.run(SPEC, tmp_path, labels=labels)}
    records = {label: one.record for label, one in outcomes.items()}
    assert {label: record["error"] for label, record in records.items()} == dict.fromkeys(labels)
    for label, record in records.items():
        losses: dict[str, dict[str, Any]] = {loss["node"]: loss for loss in record["failover"]["losses"]}
        assert losses.keys() == HITS_S[label].keys()
        assert {node: loss["roles"] for node, loss in losses.items()} == ROLES[label]
        for node, asked_s in HITS_S[label].items():
            assert -0.05 < losses[node]["hit_s"] - asked_s < AT_ONCE_S, (label, node)
        silent_s = FAILOVER_S if label in ("silent", "unscheduled") else 0.0
        silent_s = 1.5 * FAILOVER_S if label == "stood" else silent_s
        for loss in losses.values():
            assert silent_s * 0.85 <= loss["noticed_s"] - loss["hit_s"] < silent_s * 1.2 + AT_ONCE_S, loss
            assert loss["recovered_s"] < AT_ONCE_S, loss
        assert record["accuracy"]["weights_error"] == 0, label
        assert record["accuracy"]["weights_equal"], label
        for name in ("nodes", "bytes on the wire", "lower bound", "staleness"):
            assert check(record, name)["ok"], (label, check(record, name))

    for label in {"returns", "stood"} & {*labels}:
        how = {"returns": "was killed by SIGKILL", "stood": "stood still, was ended"}[label]
        (loss,) = records[label]["failover"]["losses"]
        assert loss["how"] == f"h4 {how} and was started again"
        assert len(loss["lost_updates"]) < 4 + 4, "those since the last checkpoint, and one of each worker beside"
        returned = outcomes[label].samples
        assert returned is not None
        assert len(returned) == 40
        lost = returned[returned["fate"] == Fate.LOST]
        assert sorted(zip(lost["rank"], lost["iteration"], strict=True)) == sorted(map(tuple, loss["lost_updates"]))


@pytest.mark.parametrize(
    "labels", [("server", "worker"), pytest.param(("frozen", "replica", "cut replica"), marks=pytest.mark.rehearse)]
)
def test_server_and_replica_stand_in_for_each_other(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: tuple[str, ...]
) -> None:
    """All may be VALID, but for that in which somebody else than perturb kills a process."""
    look = Bystander.look

    def killing(bystander: Bystander, feed: Feed) -> float:
        feed.look()
        node, asked = HITS[str(bystander._job.network.arm.label)]
        if not asked and (feed.ended_s(1) or 0.0) > 0:
            bystander._lab.signal(node, signal.SIGKILL)
        return look(bystander, feed)

    monkeypatch.setattr(Bystander, "look", killing)
    scheme = '"mlfabric_a(delay_bound=12,aggregators=2,divergence_updates=6)"'
    arms = "\n".join(
        f"  - {{label: {label}, topology: star(hosts=7), scheme: {scheme}, perturb: [{asked}]}}"
        for label in labels
        for _, asked in [HITS[label]]
    )
    spec = STAND_INS.replace("WORKLOAD", TRAINED).replace("ARMS", arms)
    records = {one.record["label"]: one.record for one in bench.run(spec, tmp_path)}
    assert {label: record["error"] for label, record in records.items()} == dict.fromkeys(labels)
    for label, record in records.items():
        (loss,) = record["failover"]["losses"]
        assert loss["node"] == HITS[label][0]
        assert loss["recovered_s"] < AT_ONCE_S, loss
        assert check(record, "nodes")["ok"] == bool(HITS[label][1]), (label, check(record, "nodes"))
        for name in ("bytes on the wire", "staleness", "divergence"):
            assert check(record, name)["ok"], (label, check(record, name))
        assert record["accuracy"]["weights_error"] == 0, label
        assert record["accuracy"]["weights_equal"], label
    assert {record["status"] for record in records.values()} == {"done"}
    for label in {"server", "frozen"} & {*labels}:
        metrics, found = records[label]["metrics"], records[label]["accuracy"]
        assert metrics["takeover_lost"] == 0
        assert records[label]["failover"]["losses"][0]["lost_updates"] == []
        assert metrics["takeover_behind"] <= 6
        assert found["takeover_apart"] <= found["takeover_allowed"] + found["takeover_rounded"]


@pytest.mark.parametrize("label", ["daemons", pytest.param("scheduler", marks=pytest.mark.rehearse)])
def test_the_server_feeds_the_replica_when_others_are_lost(bench: Bench, tmp_path: Path, label: str) -> None:
    records = {one.record["label"]: one.record for one in bench.run(FED, tmp_path, labels=[label])}
    assert {label: record["error"] for label, record in records.items()} == {label: None}
    nodes = {"daemons": {"h0", "h1"}, "scheduler": {"h2", "h6"}}
    for label, record in records.items():
        assert {loss["node"] for loss in record["failover"]["losses"]} == nodes[label]
        for name in ("nodes", "bytes on the wire", "lower bound", "staleness", "divergence"):
            assert check(record, name)["ok"], (label, check(record, name))
        assert record["accuracy"]["weights_error"] == 0, label
        assert record["accuracy"]["weights_equal"], label
        assert record["metrics"]["replica_error"] == 0, "the same bits, for both make the same steps"


@pytest.mark.parametrize(
    ("node", "scheme", "called"),
    [
        ("h3", "mlfabric_a(aggregators=1)", "the server on h3"),
        ("h1.daemon", "mlfabric_s(aggregators=1)", "the process h1.daemon"),
    ],
)
def test_a_loss_that_ends_a_trial_is_named_at_once(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, scheme: str, called: str
) -> None:
    took_s: list[float] = []
    died = endings.died

    def noted(*told: Any) -> WorkerError:
        error = died(*told)
        took_s.append(time.monotonic() - error.at_s)
        return error

    monkeypatch.setattr(endings, "died", noted)
    spec = OVER.replace("SCHEME", f'"{scheme}"').replace("NODE", node)
    (record,) = (one.record for one in bench.run(spec, tmp_path))
    assert 0 < min(took_s) < FAILS_S
    assert record["status"] == "failed"
    assert record["error"].startswith(f"after perturb had killed {node}: {called} was killed by SIGKILL")
    assert "remove the kill, with which this trial ends" in record["error"]
    assert record["by_perturb"]


def test_a_server_that_is_cut_off_ends_its_trial_and_is_named(bench: Bench, tmp_path: Path) -> None:
    spec = OVER.replace("{kind: kill, nodes: [NODE], at: 0.3 s}", "{kind: down, links: [h3], at: 0.3 s, until: 60 s}")
    spec = spec.replace("SCHEME", '"mlfabric_a(aggregators=1)"').replace("name: over", "name: cut\nfailover: 0.6 s")
    (record,) = (one.record for one in bench.run(spec, tmp_path))
    assert record["status"] == "failed"
    assert record["error"].startswith("while perturb had h3:eth0 -> s0, s0:eth3 -> h3 down: ")
    assert "h3" in record["error"].split("down: ")[1].split("\n")[0]
    assert record["by_perturb"]
