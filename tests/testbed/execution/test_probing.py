"""Distances that hosts probe before the launch: who meets whom, what becomes of lines, and trials of probed groups."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import TrialError
from testbed.execution import observing, probing, stage
from testbed.execution.probing import Means, bandwidth, between, latency, met_in
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan, text
from testbed.lab.base import LinkChange
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch
from testbed.perturb.events import Event
from testbed.perturb.moments import Moment
from testbed.perturb.schedule import Schedule
from testbed.spec import read
from testbed.topologies.build import build
from testbed.topologies.call import parse
from testbed.topologies.cloud import places
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.bursts.probing import ProbingJob
from testbed.workloads.locality.echo import EchoJob
from tests.patience import PATIENCE_S

from ..bench import Bench
from ..fake_lab import FakeLab
from ..records import check

CLOUD = "cloud(racks=2,hosts_per_rack=4,oversubscription=2)"
SPEC = f"""\
name: probed
links: {{rate: 200 Mbit/s}}
workload: {{model: resnet8, dataset: digits, batch: 2, iterations: 2, compute: none}}
arms: [{{topology: "{CLOUD}", scheme: "two_level(groups=probed,k=2,classes=8)"}}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
RACKS = places(build(CLOUD, rate_bps=10**8)).groups


def planned(topology: str = CLOUD) -> Trial:
    return trials(read(SPEC.replace(CLOUD, topology), "spec.yaml", Path()))[0]


@pytest.fixture
def means(tmp_path: Path) -> Means:
    files = Files(tmp_path / "work", tmp_path / "logs")
    files.work.mkdir()
    return Means(planned(), FakeLab(), files, "reno", [])


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """What a probe starts; processes say nothing."""
    some: list[Launch] = []

    def nothing(_: Trial, __: Any, files: Files, launches: Sequence[Launch]) -> list[dict[str, Any]]:
        assert files.called("h3") == "the probe on h3"
        some.extend(launches)
        return []

    monkeypatch.setattr(probing, "measured", nothing)
    return some


def answering(trips_s: dict[tuple[int, int], float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes write these round trips, those of a rack unless given, and lines of rounds that there are not."""

    def said(*_: Any) -> list[dict[str, Any]]:
        lines = [{"name": "h1", "round": 99, "rtt_s": 5.0}]
        for host, met in met_in(range(8)).items():
            for number, peer in met.items():
                near = any({host, peer} <= {*rack} for rack in RACKS)
                trip_s = trips_s.get((host, peer), 1e-4 if near else 2e-3)
                lines.append({"name": f"h{host}", "round": number, "rtt_s": trip_s})
        return lines

    monkeypatch.setattr(probing, "measured", said)


def test_a_host_meets_each_other_one_in_a_round_of_its_own() -> None:
    met = met_in([5, 7, 9])
    assert sorted(met[7].values()) == [5, 9]
    assert all(met[peer][number] == host for host, own in met.items() for number, peer in own.items())


def test_both_hosts_of_a_pair_echo_in_the_same_round_at_each_others_address(
    means: Means, launched: list[Launch]
) -> None:
    with pytest.raises(TrialError, match="no probe reached h0, h1"):
        latency(means)
    jobs = {job.node: job for job in (EchoJob.read(json.loads(Path(one.job).read_text())) for one in launched)}
    assert {one.process for one in launched} == {f"h{host}" for host in range(8)}
    assert not any(one.program or one.torch for one in launched), "a lab forks them, and imports no PyTorch for them"
    ends = {(job.node, meet.peer): meet for job in jobs.values() for meet in job.meets}
    assert len(ends) == 8 * 7
    for (host, peer), meet in ends.items():
        back = ends[peer, host]
        assert (meet.round, meet.local, meet.remote) == (back.round, back.remote, back.local)
        assert jobs[host].rounds == 7


def test_both_hosts_of_a_pair_send_bursts_to_where_the_other_expects_them(means: Means, launched: list[Launch]) -> None:
    with pytest.raises(TrialError, match="no probe reached h0, h1"):
        bandwidth(means)
    jobs = [ProbingJob.read(json.loads(Path(one.job).read_text())) for one in launched]
    for number in range(7):
        probes = [probe for job in jobs for probe in job.rounds[number]]
        assert len(probes) == 8
        listening = {(probe.local, probe.listen_port): probe for probe in probes}
        for probe in probes:
            there = listening[probe.remote, probe.send_port]
            assert (there.source, there.remote) == (probe.local, probe.local)


def test_bursts_of_a_pair_know_the_slowest_link_of_their_way() -> None:
    topology = build("cloud(racks=2,hosts_per_rack=2,oversubscription=8)", rate_bps=10**8)
    (a, b), (c, _) = places(topology).groups
    assert between(topology, a, b).rate_bps(topology) == 10**8
    assert between(topology, a, c).rate_bps(topology) == 25 * 10**6


def test_the_plan_has_equal_groups_by_number_and_says_so() -> None:
    source = read(SPEC, "spec.yaml", Path())
    assert "(latency); a plan with equal groups of hosts by number stands for it here" in text(plan(source))
    by_number = trials(read(SPEC.replace("=probed,k=2", "=[[0,1,2,3],[4,5,6,7]]"), "spec.yaml", Path()))[0]
    assert planned().job.gst_theory_s == by_number.job.gst_theory_s


def test_the_record_has_groups_distances_and_pairs_without_an_answer(
    means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering({(0, 1): None, (1, 0): None, (2, 3): None, (3, 2): 0.5}, monkeypatch)
    ran = stage.decided(means.trial, lambda probe: probing.PROBES[probe](means))
    (told,) = json.loads(json.dumps(ran.found))
    assert told["missing"] == [["h1", "h0"]]
    rows = told["measured"]
    assert list(rows) == [f"h{host}" for host in range(8)]
    assert (rows["h0"][0], rows["h0"][1], rows["h2"][3], rows["h3"][2]) == (0, None, 0.5, 0.5)
    assert told["settings"]["scheme"].startswith("two_level(")


def test_the_groups_that_are_found_are_the_racks(means: Means, monkeypatch: pytest.MonkeyPatch) -> None:
    answering({}, monkeypatch)
    ran = stage.decided(means.trial, lambda probe: probing.PROBES[probe](means))
    assert groups(ran.found[0]) == racks(range(8))


def test_hosts_that_do_not_answer_fail_the_trial_and_are_named(means: Means, monkeypatch: pytest.MonkeyPatch) -> None:
    answering({pair: None for other in range(8) for pair in ((6, other), (other, 6))}, monkeypatch)
    with pytest.raises(TrialError, match="no probe reached h6"):
        stage.decided(means.trial, lambda probe: probing.PROBES[probe](means))
    answering(dict.fromkeys([(a, b) for a in RACKS[0] for b in RACKS[1]], None), monkeypatch)
    answered = latency(means)  # the other direction counts
    assert None not in answered["h0"]
    across = [pair for a in RACKS[0] for b in RACKS[1] for pair in ((a, b), (b, a))]
    answering(dict.fromkeys(across, None), monkeypatch)
    with pytest.raises(TrialError, match="16 of 28 pairs of hosts did not answer"):
        latency(means)


def test_an_event_that_fails_while_hosts_probe_fails_the_trial(means: Means, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def once() -> Iterator[Event]:
        yield Event(Moment(time_s=0.0), "rate", "h0 is slow", (LinkChange(0, rate_bps=1),))
        over.set()

    monkeypatch.setattr(Trial, "schedule", lambda _, while_probed: Schedule((once(),) if while_probed else ()))
    says = "while hosts probed each other: h0 is slow: the kernel refused"
    with pytest.raises(TrialError, match=says), observing._tenants(means.trial, FakeLab(refuses=True), means.files):
        assert over.wait(PATIENCE_S)


def groups(told: Any) -> set[frozenset[str]]:
    return {frozenset(group) for group in parse(told["settings"]["scheme"], "ring").arguments["groups"]}


def racks(hosts: Sequence[int], within: Sequence[Sequence[int]] = RACKS) -> set[frozenset[str]]:
    return {frozenset(f"h{host}" for host in rack if host in hosts) for rack in within}


@pytest.mark.lab
def test_hosts_of_a_cloud_find_its_racks_and_train_along_them(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC, tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    (told,) = record["found"]
    assert groups(told) == racks(range(8))
    assert (told["probe"], told["missing"]) == ("latency", [])
    a, b = RACKS[0][0], RACKS[1][0]
    assert 0.002 < told["measured"][f"h{a}"][b] < 0.1
    assert record["accuracy"]["weights_error"] < 1e-6
    wire = check(record, "bytes on the wire")
    assert wire["ok"], wire


@pytest.mark.lab
def test_a_job_finds_its_groups_by_bandwidth_and_another_one_runs_beside_it(bench: Bench, tmp_path: Path) -> None:
    cloud = "cloud(racks=2,hosts_per_rack=3,oversubscription=6,rack_delay_s=0)"
    two = places(build(cloud, rate_bps=10**8)).groups
    mine, others = sorted(two[0][:2] + two[1][:2]), [two[0][2], two[1][2]]
    jobs = ", ".join(
        f"{{name: {name}, scheme: '{scheme}', hosts: [{','.join(f'h{host}' for host in hosts)}]}}"
        for name, scheme, hosts in [
            ("one", "two_level(groups=probed,k=2,probe=bandwidth)", mine),
            ("two", "ring", others),
        ]
    )
    profile = "{kind: profile, model: lenet5, batch: 16, iterations: 2, scale: 10, compute: none}"
    lines = SPEC.replace("200 Mbit/s", "2 Gbit/s").splitlines()
    lines[2:4] = [f"workload: {profile}", f"arms: [{{topology: '{cloud}', jobs: [{jobs.replace(chr(39), chr(34))}]}}]"]
    (outcome,) = bench.run("\n".join(lines), tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    (told,) = record["found"]
    assert (told["job"], told["probe"]) == ("one", "bandwidth")
    assert groups(told) == racks(mine, two)
    wires = [one for one in record["fidelity"]["checks"] if one["name"] == "bytes on the wire"]
    assert wires
    assert all(one["ok"] for one in wires), wires


@pytest.mark.lab
@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "the probe on h2 was killed by SIGKILL"), (signal.SIGSTOP, "; stopped: h2")]
)
def test_a_host_that_is_struck_while_it_is_probed_is_named(
    number: int, said: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = NetnsLab.launch

    def struck(lab: NetnsLab, workers: Sequence[Launch]) -> None:
        launch(lab, workers)
        files = replace(Files(Path(workers[0].job).parent, tmp_path), stage=probing.MARK)
        if Path(workers[0].job) == files.job("h0"):
            deadline_s = time.monotonic() + 30
            while not (files.samples("h0").exists() and files.samples("h0").read_text()):
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
            lab.signal("h2", number)

    monkeypatch.setattr(NetnsLab, "launch", struck)
    spec = SPEC.replace(CLOUD, "star(hosts=4)").replace("{rate: ", "{delay: 2 ms, rate: ").replace("20 s", "2 s")
    (outcome,) = bench.run(spec, tmp_path)
    assert outcome.record["status"] == "failed"
    assert said in outcome.record["error"]
