"""Predicted durations of probes between hosts, without what only a run needs to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.topologies.model import Topology
from testbed.trial import job_files
from testbed.workloads.locality.distances import rounds
from testbed.workloads.locality.echo import SENT

STARTING_S, MEETING_S, ECHO_S = 5.0, 0.15, 0.0005
"""Seconds that a probe's processes take to start and to end, that a round takes beside what is measured in it, and that
a packet and its answer take beside the links' delays, where 16 hosts share two busy cores: 15.3 s by latency and 13.3 s
by bandwidth (benchmarks/probing.py)."""


def _latency_s(topology: Topology) -> float:
    return _whole_s(topology, SENT * (_trip_s(topology) + ECHO_S))


def _bandwidth_s(topology: Topology) -> float:
    return _whole_s(topology, job_files.burst_s(topology) + _trip_s(topology))


def _trip_s(topology: Topology) -> float:
    return max((burst.round_trip_s(topology) for burst in topology.bursts), default=0.0)


def _whole_s(topology: Topology, round_s: float) -> float:
    return STARTING_S + len(rounds(len(topology.hosts))) * (round_s + MEETING_S)


EXPECTED_S: Mapping[str, Callable[[Topology], float]] = {
    "rates": lambda _: 0.0,  # by the bursts that any trial begins with
    "latency": _latency_s,
    "bandwidth": _bandwidth_s,
    "linear": lambda topology: _latency_s(topology) + _bandwidth_s(topology),
}
"""Time (s) that each probe takes on a network, beside bursts."""
