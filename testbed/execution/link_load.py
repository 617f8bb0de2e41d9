"""Bytes that links carried beside a trial's gradients and sums: of bursts, of background flows, and what TCP added.

Each load is in bytes by directed link, headers included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from testbed.evidence.links import LinkRecord
from testbed.perturb.circuits import Carried, History
from testbed.topologies.model import Path, Topology
from testbed.trial.job import Job
from testbed.trial.job_files import burst_addresses
from testbed.trial.model import Trial
from testbed.workloads.sync.tcp_info import Sent

Lines = Sequence[Mapping[str, Any]]
LinkLoad = dict[int, float]
_Count = tuple[Sequence[Path], float]
"""Paths of a flow, and its bytes; weights of paths count as shares of their sum."""


def probed_bytes(trial: Trial, probes: Lines) -> LinkLoad:
    """Return the bytes that bursts put on links: every NIC reports what it received."""
    received = _by_nic(trial, probes)
    counts = (
        (burst.paths(trial.topology), received[burst.dst, address]["bytes"] / trial.network.goodput)
        for burst, _, address in burst_addresses(trial.topology)
        if (burst.dst, address) in received
    )
    return _routed(counts)


def background_bytes(trial: Trial, sent: Sequence[int]) -> LinkLoad:
    """Return the bytes that background flows put on links; ``sent`` has the bytes that each of them sent."""
    flows = zip(trial.background, sent, strict=True)
    return _routed((trial.topology.connections(*pair)[0], count / trial.network.goodput) for pair, count in flows)


def extra_bytes(trial: Trial, done: Lines, probes: Lines, circuits: History) -> LinkLoad:
    """Return the bytes that TCP put on links beyond streams in full packets, as far as processes' connections are
    known: acknowledgements, and what was sent again. A link may have carried less of the latter: packets may be lost
    before it."""
    states = [(state.topology, state.carried) for state in circuits if state.carried is not None]
    of_states = [one for state in states for one in _of_states(*state, trial.network.goodput)]
    return _routed([*(of_states or _of_processes(trial, done)), *_of_bursts(trial, probes)])


def recorded(job: Job, links: Sequence[LinkRecord]) -> list[LinkRecord]:
    """Return the entries that a record has of links: all, or those that stand for all others, which carry the same."""
    standing = job.kind.simulation.recorded_links(job.plan)
    return [link for link in links if standing is None or link["link"] in standing]


def _of_processes(trial: Trial, done: Lines) -> Iterator[_Count]:
    topology = {process: job.network.topology for job in trial.jobs for process in job.processes}
    for line in done:
        for other, sent in (line["sent"] or {}).items():
            paths = topology[line["name"]].paths(trial.homes[line["name"]], int(other))
            yield paths, Sent(**sent).extra_bytes(trial.network.goodput)


def _of_states(topology: Topology, carried: Carried, goodput: float) -> Iterator[_Count]:
    """Yield paths and extra bytes of processes that told what passed over these circuits. A pair's last
    acknowledgements may go when no circuit joins it any more: the kernel has no route for them."""
    for src, dst in np.argwhere(carried.stream_bytes + carried.stream_bytes.T).tolist():
        sent = Sent(int(carried.stream_bytes[src, dst]), int(carried.wire_bytes[src, dst]))
        yield topology.paths(src, dst), sent.extra_bytes(goodput)


def _of_bursts(trial: Trial, probes: Lines) -> Iterator[_Count]:
    told = _by_nic(trial, probes)
    for burst, local, remote in burst_addresses(trial.topology):
        sender, receiver = told.get((burst.src, local)), told.get((burst.dst, remote))
        if sender is not None and receiver is not None:  # else the process of one of them died
            there, back = (
                trial.topology.connections(*pair)[burst.connection]
                for pair in ((burst.src, burst.dst), (burst.dst, burst.src))
            )
            yield there, max(0.0, sender["sent_bytes"] - receiver["bytes"] / trial.network.goodput)
            yield back, receiver["acknowledged_bytes"]


def _by_nic(trial: Trial, probes: Lines) -> dict[tuple[int, str], Mapping[str, Any]]:
    """Return probe lines by node and address of its NIC, as the NIC's process tells."""
    return {(trial.processes[line["name"]], line["port_address"]): line for line in probes}


def _routed(counts: Iterable[_Count]) -> LinkLoad:
    """Add up the bytes that flows put on each link."""
    load: LinkLoad = defaultdict(float)
    for paths, count in counts:
        whole = sum(path.weight for path in paths)
        for path in paths:
            for link in path.links:
                load[link] += count * path.weight / whole
    return dict(load)
