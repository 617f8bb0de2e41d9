"""Jobs: both ends of each connection agree, and so do both ends of each burst."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.experiment.expand import trials
from testbed.lab.base import LinkSettings
from testbed.spec import Source, read
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.job_files import slow_start_s
from testbed.trial.model import Trial
from testbed.workloads.failover import checked_in
from testbed.workloads.job import Failover, Peer, WorkerJob

from ..conftest import SPEC


@pytest.fixture(params=["star(hosts=4)|ring", "bcube(n=3,k=2)|bml", "fat_tree(k=4)|ps"])
def any_trial(request: pytest.FixtureRequest) -> Trial:
    topology, scheme = request.param.split("|")
    arms = f'[{{topology: "{topology}", scheme: {scheme}}}]'
    return trials(read(SPEC, "spec.yaml", Path(), [f"arms={arms}"]))[0]


@pytest.fixture
def written(any_trial: Trial, tmp_path: Path) -> list[WorkerJob]:
    files = Files(tmp_path / "work", tmp_path / "logs")
    files.work.mkdir()
    launches = job_files.write(any_trial, files, "reno")
    return [WorkerJob.load(Path(launch.job)) for launch in launches]


def test_processes_of_a_node_share_its_folder_and_no_file(tmp_path: Path) -> None:
    files = Files(tmp_path / "work", tmp_path / "logs", {"h3": "h3", "h3.daemon": "h3", "a/h3": "h3"})
    assert files.samples("h3") == tmp_path / "work" / "h3" / "samples.jsonl"
    assert files.log("a/h3") == tmp_path / "logs" / "a+h3.log"
    every = [kind(one) for one in files.homes for kind in (files.job, files.samples, files.weights, files.log)]
    every += [checked_in(files.samples(process), 0) for process in files.homes]
    assert len(set(every)) == len(every)
    assert {files.own(process) for process in files.homes} == {tmp_path / "work" / "h3"}
    assert (files.called("h3"), files.called("a/h3")) == ("the worker on h3", "the process a/h3")
    assert replace(files, role={"h3": "server"}.__getitem__).called("h3") == "the server on h3"


def test_both_ends_of_a_connection_agree_on_addresses_and_port(written: list[WorkerJob]) -> None:
    ends = {(job.node, peer.node): peer for job in written for peer in job.peers}
    names = {job.node: job.name for job in written}
    assert ends
    for (node, other), peer in ends.items():
        back = ends[other, node]
        assert peer.process == names[other]
        assert (peer.local, peer.remote, peer.port) == (back.remote, back.local, back.port)


def test_no_two_listeners_of_a_host_share_a_port(written: list[WorkerJob]) -> None:
    for job in written:
        listening = [(peer.local, peer.port) for peer in job.peers if peer.node < job.node]
        listening += [(probe.local, probe.listen_port) for probe in job.probes]
        assert len(set(listening)) == len(listening)


def test_every_burst_is_sent_to_a_listener_that_expects_it(written: list[WorkerJob]) -> None:
    listeners = {(probe.local, probe.listen_port): probe for job in written for probe in job.probes}
    sent = {(probe.remote, probe.send_port): probe for job in written for probe in job.probes}
    assert sent.keys() == listeners.keys()


def test_what_should_arrive_is_what_the_slowest_link_lets_through() -> None:
    """Of each rack one burst leaves over the uplink, which is shared by two hosts and oversubscribed eight times."""
    topology = build("spine_leaf(racks=2,hosts_per_rack=2,spines=1,oversubscription=8)", rate_bps=2 * 10**6)
    found = job_files.probes(topology, plan(topology), LinkSettings())
    assert [probes[0].rate_bps for _, probes in sorted(found.items())] == [500_000, 2_000_000, 500_000, 2_000_000]
    assert [probes[0].pace_bps for _, probes in sorted(found.items())] == [None, 550_000, None, 550_000]
    assert {probes[0].duration_s for probes in found.values()} == {24.0}  # 12 Mbit over the slowest


def test_a_burst_outlasts_slow_start() -> None:
    """20 ms a link make a round trip of 80 ms, in which 50 Mbit/s hold 35 initial windows: 5.1 doublings, and 2."""
    topology = build("star(hosts=2)", rate_bps=50 * 10**6, delay_s=0.02)
    (burst, _) = topology.bursts
    start_s = slow_start_s(burst.rate_bps(topology), burst.round_trip_s(topology))
    assert start_s == pytest.approx(0.08 * (2 + 5.11), rel=0.01)
    (probe,), _ = job_files.probes(topology, plan(topology), LinkSettings()).values()
    assert probe.duration_s == pytest.approx(0.08 * 7.11 / 0.3, rel=0.01)


def test_what_links_are_to_lose_need_not_arrive() -> None:
    topology = build("star(hosts=2)", rate_bps=10**8)
    (probe,), _ = job_files.probes(topology, plan(topology), LinkSettings(loss=0.01)).values()
    assert (probe.rate_bps, probe.datagram_bytes) == (98_010_000, 2**25)


def test_ranks_are_hosts_and_the_first_keeps_the_weights(written: list[WorkerJob]) -> None:
    assert [job.rank for job in written] == list(range(len(written)))
    assert [job.weights is not None for job in written] == [True] + [False] * (len(written) - 1)
    assert {job.congestion_control for job in written} == {"reno"}


def test_all_workers_keep_the_weights_where_the_first_may_be_lost(tmp_path: Path) -> None:
    """Whatever it is lost by: nothing of the spec needs to do it."""
    arms = "arms=[{topology: star(hosts=5), scheme: mlfabric_a(aggregators=1)}]"
    paced = ["failover=2 s", "workload.compute={mode: paced, pace: {2: 50 ms}}"]
    (trial,) = trials(read(SPEC, "spec.yaml", Path(), [arms, *paced]))
    files = Files(tmp_path / "work", tmp_path / "logs")
    files.work.mkdir()
    jobs = [WorkerJob.load(Path(launch.job)) for launch in job_files.write(trial, files, "reno")]
    assert {job.name for job in jobs if job.weights} == {*trial.job.workers}


def test_routes_are_asked_for_both_ways_and_for_bursts(source: Source) -> None:
    ring = trials(source)[1]  # on three hosts
    assert job_files.host_pairs(ring) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_where_some_may_die_all_may_meet() -> None:
    text = SPEC.replace("scheme: ps}", "scheme: rina}").replace("star(hosts=3)", "'star(hosts=3,ina=all)'")
    rina, ring = trials(read(text, "spec.yaml", Path()))
    assert len(job_files.host_pairs(rina)) == 4 * 3  # the switch, too
    assert rina.goes_on
    assert not ring.goes_on


def test_a_job_is_read_as_it_was_written(written: list[WorkerJob], tmp_path: Path) -> None:
    state = (Peer(2, "10.0.0.1", "10.0.0.3", 9600),)
    job = replace(written[0], failover=Failover(1, "/tmp/work/generation-1", 2.5, first=4, shift=12, state=state))
    job.save(tmp_path / "job.json")
    assert WorkerJob.load(tmp_path / "job.json") == job
