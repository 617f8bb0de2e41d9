"""What links carried of a trial beside its gradients and sums: bursts, background flows, and what TCP added.

Each is in bytes by directed link, headers included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from testbed.execution.job_files import burst_addresses
from testbed.perturb.circuits import History, passed
from testbed.trial.model import Trial
from topologies.bursts import Burst
from topologies.model import Path
from workloads.sync.tcp_info import Sent

Lines = Sequence[Mapping[str, Any]]
LinkLoad = dict[int, float]
_Count = tuple[Sequence[Path], float]
"""Paths of a flow, and its bytes; weights count as shares of their sum."""


def probed_bytes(trial: Trial, probes: Lines) -> LinkLoad:
    """What the burst put there: every NIC reports what it received."""
    received = _by_nic(trial, probes)
    counts = (
        (burst.paths(trial.topology), received[burst.dst, address]["bytes"] / trial.network.goodput)
        for burst, _, address in burst_addresses(trial.topology)
        if (burst.dst, address) in received
    )
    return _routed(counts)


def background_bytes(trial: Trial, sent: Sequence[int]) -> LinkLoad:
    """What background flows put there; ``sent`` is what each of them sent."""
    flows = zip(trial.network.background, sent, strict=True)
    return _routed((trial.topology.connections(*pair)[0], count / trial.network.goodput) for pair, count in flows)


def extra_bytes(trial: Trial, done: Lines, probes: Lines, circuits: History) -> LinkLoad:
    """What TCP has put there beyond streams in full packets, as far as processes' connections are known:
    acknowledgements, and what was sent again. Of that, a link may have carried less: what was lost before."""
    return _routed([*_of_processes(trial, done, circuits), *_of_bursts(trial, probes)])


def _of_processes(trial: Trial, done: Lines, circuits: History) -> Iterator[_Count]:
    for line in done:
        for other, sent in (line["sent"] or {}).items():
            ends = trial.processes[line["name"]], int(other)
            for topology, share in passed(circuits, *ends):
                yield topology.paths(*ends), share * Sent(**sent).extra_bytes(trial.network.goodput)


def _of_bursts(trial: Trial, probes: Lines) -> Iterator[_Count]:
    told = _by_nic(trial, probes)
    for burst, local, remote in burst_addresses(trial.topology):
        sender, receiver = told.get((burst.src, local)), told.get((burst.dst, remote))
        if sender is not None and receiver is not None:  # else the process of one of them died
            there, back = (trial.topology.connections(*pair)[burst.connection] for pair in _both_ways(burst))
            yield there, max(0.0, sender["sent_bytes"] - receiver["bytes"] / trial.network.goodput)
            yield back, receiver["acknowledged_bytes"]


def _both_ways(burst: Burst) -> tuple[tuple[int, int], tuple[int, int]]:
    return (burst.src, burst.dst), (burst.dst, burst.src)


def _by_nic(trial: Trial, probes: Lines) -> dict[tuple[int, str], Mapping[str, Any]]:
    """By node and the address of its NIC, as its process tells."""
    return {(trial.processes[line["name"]], line["port_address"]): line for line in probes}


def _routed(counts: Iterable[_Count]) -> LinkLoad:
    """What flows put on links."""
    load: LinkLoad = defaultdict(float)
    for paths, count in counts:
        whole = sum(path.weight for path in paths)
        for path in paths:
            for link in path.links:
                load[link] += count * path.weight / whole
    return dict(load)
