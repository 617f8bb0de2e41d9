"""What links carried of a trial beside its gradients and sums: bursts, background flows, and what TCP added.

Each is in bytes by directed link, headers included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from testbed.execution.job_files import burst_addresses
from testbed.trial.model import Trial
from topologies.model import Topology
from workloads.sync.tcp_info import Sent

Lines = Sequence[Mapping[str, Any]]
LinkLoad = dict[int, float]


def probed_bytes(trial: Trial, probes: Lines) -> LinkLoad:
    """What the burst put there: every NIC reports what it received."""
    received = _by_nic(trial, probes)
    counts = (
        (burst.src, burst.dst, received[burst.dst, address]["bytes"] / trial.network.goodput)
        for burst, _, address in burst_addresses(trial.topology)
        if (burst.dst, address) in received
    )
    return _routed(trial.topology, counts)


def background_bytes(trial: Trial, sent: Sequence[int]) -> LinkLoad:
    """What background flows put there; ``sent`` is what each of them sent."""
    flows = zip(trial.network.background, sent, strict=True)
    return _routed(trial.topology, ((*pair, count / trial.network.goodput) for pair, count in flows))


def extra_bytes(trial: Trial, done: Lines, probes: Lines) -> LinkLoad:
    """What TCP has put there beyond streams in full packets, as far as processes' connections are known:
    acknowledgements, and what was sent again. Of that, a link may have carried less: what was lost before."""
    return _routed(trial.topology, [*_of_processes(trial, done), *_of_bursts(trial, probes)])


def _of_processes(trial: Trial, done: Lines) -> Iterator[tuple[int, int, float]]:
    for line in done:
        for other, sent in (line["sent"] or {}).items():
            yield trial.processes[line["name"]], int(other), Sent(**sent).extra_bytes(trial.network.goodput)


def _of_bursts(trial: Trial, probes: Lines) -> Iterator[tuple[int, int, float]]:
    told = _by_nic(trial, probes)
    for burst, local, remote in burst_addresses(trial.topology):
        sender, receiver = told.get((burst.src, local)), told.get((burst.dst, remote))
        if sender is not None and receiver is not None:  # else the process of one of them died
            yield burst.src, burst.dst, max(0.0, sender["sent_bytes"] - receiver["bytes"] / trial.network.goodput)
            yield burst.dst, burst.src, receiver["acknowledged_bytes"]


def _by_nic(trial: Trial, probes: Lines) -> dict[tuple[int, str], Mapping[str, Any]]:
    """By node and the address of its NIC, as its process tells."""
    return {(trial.processes[line["name"]], line["port_address"]): line for line in probes}


def _routed(topology: Topology, counts: Iterable[tuple[int, int, float]]) -> LinkLoad:
    """What flows (source, destination, bytes) put on links."""
    load: LinkLoad = defaultdict(float)
    for source, destination, count in counts:
        for path in topology.paths(source, destination):
            for link in path.links:
                load[link] += count * path.weight
    return dict(load)
