"""Rates of traffic on links that is not the trial's own: what they carried less what its connections did.

The kernel counts both at every moment, so that what is still on its way counts as neither: on the first link of a way,
what has left or waits there is compared with what the sender's end of a connection has sent; on the others, what has
left with what the receiver's end has got.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from testbed.lab.measurements import Passed, Traffic
from testbed.topologies.addressing import plan
from testbed.topologies.model import Topology

_Own = Mapping[tuple[str, str, tuple[int, int]], int]
"""Bytes by connection: addresses of both ends, and their ports."""
_NONE: _Own = {}
LONGEST = 0.05
"""Share of the time since the last counts that these may have taken to read. Counts that took longer are left out: they
are not of one moment."""


class _Seen(NamedTuple):
    """Bytes that have entered a link at a moment of its machine's clock, and those of each connection."""

    at_s: float
    entered_bytes: int
    own: _Own


class BackgroundRates:
    """Rates of background traffic in a network with one path between two hosts. The counts of each machine are compared
    with its own earlier counts, and their times are those of its clock."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._owner = {address: node for (node, _), (address, _) in plan(topology).host.items()}
        self._first = {link for host in topology.hosts for link in topology.ports[host]}
        self._ways: dict[tuple[int, int], tuple[int, ...]] = {}
        self._before: dict[int, _Seen] = {}

    def since(self, traffic: Traffic) -> dict[int, float]:
        """Rate of other traffic on each directed link of a machine (bit/s, headers included) since its last counts;
        nothing at the first ones, nor of a link on which a connection of the trial's has ended meanwhile. Counts that
        took too long to read (:data:`LONGEST`) are passed over."""
        own, found = self._own(traffic), dict[int, float]()
        for one in traffic.links:
            now = _Seen(traffic.at_s, self._entered(one), own.get(one.directed_link, _NONE))
            before = self._before.get(one.directed_link)
            if before is not None and traffic.took_s > LONGEST * (now.at_s - before.at_s):
                continue
            self._before[one.directed_link] = now
            rate_bps = None if before is None else _others_bps(before, now)
            if rate_bps is not None:
                found[one.directed_link] = rate_bps
        return found

    def _entered(self, one: Passed) -> int:
        return one.left_bytes + (one.waiting_bytes if one.directed_link in self._first else 0)

    def _own(self, traffic: Traffic) -> Mapping[int, _Own]:
        """Bytes of the trial's connections, by directed link."""
        found: dict[int, dict[tuple[str, str, tuple[int, int]], int]] = defaultdict(dict)
        for one in traffic.streams:
            here, there = self._owner.get(one.local), self._owner.get(one.remote)
            if here is None or there is None or here == there:
                continue
            which = one.local, one.remote, one.ports
            found[self._way(here, there)[0]][which] = one.sent_bytes
            for link in self._way(there, here)[1:]:
                found[link][which] = one.received_bytes
        return found

    def _way(self, source: int, target: int) -> tuple[int, ...]:
        known = self._ways.get((source, target))
        if known is None:
            known = self._ways[source, target] = self._topology.paths(source, target)[0].links
        return known


def _others_bps(before: _Seen, now: _Seen) -> float | None:
    """Rate at which others have sent since (bit/s); None if a connection of ours has ended meanwhile, for nobody tells
    what it sent last, or if no time has passed."""
    if now.at_s <= before.at_s or any(now.own.get(which, -1) < count for which, count in before.own.items()):
        return None
    ours_bytes = sum(now.own.values()) - sum(before.own.values())
    return max(0.0, 8 * (now.entered_bytes - before.entered_bytes - ours_bytes) / (now.at_s - before.at_s))
