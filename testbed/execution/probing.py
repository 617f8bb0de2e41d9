"""Processes that measure a trial's links before its own start: bursts, where these cannot do it (programs of which
nothing is known, and jobs that do not wait for each other), and measurements of hosts for what is to be found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import supervise
from testbed.execution.observed import Lines
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.programs import Launch
from testbed.topologies.addressing import plan
from testbed.topologies.model import Burst, Topology
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.trial.ports import SYNC_PORT
from testbed.workloads import kinds
from testbed.workloads.bursts.probing import MeetingJob, ProbingJob
from testbed.workloads.locality.distances import Pair, by_bandwidth, check_complete, rounds, symmetric
from testbed.workloads.locality.echo import EchoJob, Meet
from testbed.workloads.sync.flows import neighbours

MARK = "probing"
"""Mark of the files of these processes: bursts and the trial's own have the same names."""


Met: TypeAlias = dict[int, int]
"""Hosts that a host meets, by the round's number; in some it may rest."""


@dataclass(frozen=True)
class Means:
    """Access of a probe to the trial that is planned, and to its lab, whose network is up.

    Attributes:
        files: where a probe's processes may read and write.
        bursts: ``probe`` lines of the bursts into each NIC, each with its host's ``name``.
    """

    trial: Trial
    lab: Lab
    files: Files
    congestion_control: str
    bursts: Lines


Measured: TypeAlias = Mapping[str, Sequence[float | None]]
"""Numbers by host: the record keeps them. None stands for a pair without a distance, of this host and the host of that
place."""


def rates_bps(bursts: Lines) -> Measured:
    """Return the rates (bit/s) at which bursts came into each host's NICs, by the host's name."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in bursts:
        found[line["name"]].append(line["rate_bps"])
    return dict(found)


def latency(means: Means) -> Measured:
    """Return the round trips (s) between all hosts, by packets of 4 bytes that come back.

    Raises:
        TrialError: a process failed, or too many pairs have no answer.
    """
    addresses = plan(means.trial.topology)

    def fields(host: int, met: Met, count: int) -> dict[str, Any]:
        meets = tuple(Meet(number, peer, *addresses.flow(host, peer)) for number, peer in met.items())
        return {"rounds": count, "meets": meets, "ports": job_files.ECHO_PORTS}

    return _distances(means, _by_pair(means, EchoJob, fields, "rtt_s"))


def bandwidth(means: Means) -> Measured:
    """Return the inverse (s/bit) of the rate at which a burst comes from each host to each other one, while all pairs
    of a round send. It is the mean: of bursts that share a link, TCP's median over slices may be close to nothing.

    Raises:
        TrialError: as :func:`latency`.
    """
    topology, settings = means.trial.topology, link_settings(means.trial.spec)
    duration_s = job_files.burst_s(topology)
    probe = partial(job_files.probe, plan(topology), settings, duration_s=duration_s)

    def fields(host: int, met: Met, count: int) -> dict[str, Any]:
        bursts = {n: (probe(between(topology, host, peer), between(topology, peer, host)),) for n, peer in met.items()}
        return {"rounds": tuple(bursts.get(number, ()) for number in range(count))}

    arrived = _by_pair(means, ProbingJob, fields, "bytes")
    rates_bps = {(peer, host): 8 * (count or 0) / duration_s for (host, peer), count in arrived.items()}
    return _distances(means, by_bandwidth(rates_bps))


def met_in(hosts: Sequence[int]) -> dict[int, Met]:
    """Return the hosts that each host meets, in the order of rounds."""
    met: dict[int, Met] = {host: {} for host in hosts}
    for number, pairs in enumerate(rounds(len(hosts))):
        for a, b in pairs:
            met[hosts[a]][number], met[hosts[b]][number] = hosts[b], hosts[a]
    return met


def between(topology: Topology, src: int, dst: int) -> Burst:
    """Return the burst from a host to another over their first connection."""
    path = topology.connections(src, dst)[0][0]
    return Burst(src, path.links[0], dst, path.links[-1])


def _by_pair(
    means: Means, kind: type[MeetingJob], fields: Callable[[int, Met, int], dict[str, Any]], key: str
) -> dict[Pair, float | None]:
    """Run a process on each host; return the ``key`` of its lines, by its host and the other one of the round.

    Args:
        fields: returns the fields of a host's job, given the hosts that it meets and the number of rounds.
    """
    trial, files = means.trial, replace(means.files, stage=MARK, role=lambda _: "probe")
    met_by_host: dict[int, Met] = {}

    def own(hosts: Sequence[int]) -> dict[int, dict[str, Any]]:
        met_by_host.update(met_in(hosts))
        return {host: fields(host, met_by_host[host], len(rounds(len(hosts)))) for host in hosts}

    with named_errors(files.work):
        started = launches(trial, files, means.congestion_control, kind, own)
    lines = measured(trial, means.lab, files, started)
    said = {(trial.topology.index[line["name"]], line.get("round")): line.get(key) for line in lines}
    return {(host, peer): said.get((host, n)) for host, met in met_by_host.items() for n, peer in met.items()}


def _distances(means: Means, measured: Mapping[Pair, float | None]) -> Measured:
    """Return each host's distances to all hosts, in their order.

    Raises:
        TrialError: too many pairs have none.
    """
    names = [means.trial.topology.nodes[host].name for host in means.trial.topology.hosts]
    distances = symmetric(len(names), measured)
    check_complete(names, distances)
    return {
        name: [None if value != value else value for value in row]
        for name, row in zip(names, distances.tolist(), strict=True)
    }


def linear(means: Means) -> Measured:
    """Return for each host its :func:`latency` to all hosts, and after that its :func:`bandwidth`.

    Raises:
        TrialError: as these.
    """
    inverse = bandwidth(means)
    return {name: [*row, *inverse[name]] for name, row in latency(means).items()}


PROBES: dict[str, Callable[[Means], Measured]] = {
    "rates": lambda means: rates_bps(means.bursts),
    "latency": latency,
    "bandwidth": bandwidth,
    "linear": linear,
}
"""Measurements that hosts make for what is to be found, by name."""


BEFORE = "before"
"""Mark of the files of these processes: the trial's own have the same names."""
MOST_PROBED_BYTES = 2**20
"""Bytes that a process writes at most which measures a host's links: a line for each of its NICs, or for each host."""

Own = Callable[[Sequence[int]], Mapping[int, Mapping[str, Any]]]
"""Function of hosts that meet which returns the fields of each one's job, beside those of the meeting."""


def probers(trial: Trial, files: Files, congestion_control: str) -> list[Launch]:
    """Write the jobs of processes that send bursts over all links, one a host; return their launches."""
    bursts = job_files.probes(trial.topology, plan(trial.topology), link_settings(trial.spec))
    return launches(
        trial,
        replace(files, stage=BEFORE),
        congestion_control,
        ProbingJob,
        lambda hosts: {host: {"rounds": (bursts.get(host, ()),)} for host in hosts},
    )


def launches(trial: Trial, files: Files, congestion_control: str, kind: type[MeetingJob], own: Own) -> list[Launch]:
    """Write the jobs of processes, one a host, which meet along a ring of all hosts that reach each other; return their
    launches."""
    addresses = plan(trial.topology)
    made = []
    for number, ring in enumerate(job_files.meeting_rings(trial.topology)):
        path = files.plan(f"{files.stage}{number}")
        kinds.save(ring, path)
        for node, fields in own(ring.workers).items():
            name = trial.topology.nodes[node].name
            kind(
                node=node,
                forest=str(path),
                peers=tuple(
                    job_files.peer(addresses, node, other, SYNC_PORT + min(node, other))
                    for other in neighbours(ring, node)
                ),
                congestion_control=congestion_control,
                start_timeout_s=trial.spec.start_timeout_s,
                timeout_s=trial.spec.timeout_s,
                samples=str(files.samples(name)),
                **fields,
            ).save(files.job(name))
            made.append(Launch(name, node, str(files.job(name)), str(files.log(name)), torch=False))
    return made


def measured(trial: Trial, lab: Lab, files: Files, launches: Sequence[Launch]) -> list[dict[str, Any]]:
    """Start the processes of :func:`launches`, if there are any, and wait for them; return the lines of what they
    measured, each with its process's name.

    Raises:
        TrialError: one of them failed, or did not end.
    """
    if not launches:
        return []
    lab.launch(launches)
    samples = {one.process: files.samples(one.process) for one in launches}
    signs = supervise.Growth(lab, files, [*samples], trial.spec.timeout_s, trial.spec.start_timeout_s)
    supervise.wait(lab, Feed(samples, MOST_PROBED_BYTES), files, signs)
    return [
        {**line, "name": one.process}
        for one in launches
        for line in endings.read_checked(files.samples(one.process), MOST_PROBED_BYTES)
        if line["kind"] in ("probe", "echo")
    ]
