"""The network monitor of MLfabric (section 4): it looks at the rates of links again and again, and tells what changed.

It sees how links are shaped, less what other traffic takes of them. They are shaped at first as the topology has them,
later as the trial's perturbations have changed them. A link that carries nothing has rate 0. Other traffic is what the
kernel has counted on a link less what it has counted of the trial's own connections. The kernel counts both at every
moment, so that what is still on its way counts as neither: on the first link of a way, what has left or waits there is
compared with what the sender's end of a connection has sent; on the others, what has left with what the receiver's end
has got.

It tells in a file of the trial's work folder (:mod:`testbed.workloads.link_rates`). The scheduler follows that file,
and decides how late it learns of a change.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Context
from testbed.lab.measurements import Traffic
from testbed.topologies.addressing import plan
from testbed.topologies.model import Topology
from testbed.workloads.link_rates import EVERY_S, NAME, left, told

_Own = Mapping[tuple[str, str, tuple[int, int]], int]
"""Bytes by connection: addresses of both ends, and their ports."""
_NONE: _Own = {}
LONGEST = 0.05
"""Share of the time since the last counts that these may have taken to read. Counts that took longer are left out: they
are not of one moment."""
SELDOM_S = 1.0
"""Seconds between two looks where they take long."""
MOST_SHARE = 0.05
"""Share of the time that a machine may take to read: where it takes longer, there are fewer looks."""


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
            entered_bytes = one.left_bytes + (one.waiting_bytes if one.directed_link in self._first else 0)
            now = _Seen(traffic.at_s, entered_bytes, own.get(one.directed_link, _NONE))
            before = self._before.get(one.directed_link)
            if before is not None and traffic.took_s > LONGEST * (now.at_s - before.at_s):
                continue
            self._before[one.directed_link] = now
            rate_bps = None if before is None else _others_bps(before, now)
            if rate_bps is not None:
                found[one.directed_link] = rate_bps
        return found

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


class NetworkMonitor:
    """Controller that is the network monitor."""

    is_urgent = False

    def __init__(self, context: Context) -> None:
        self._topology, self._records, self._lab = context.trial.topology, context.records, context.lab
        self._path = context.files.work / NAME
        self._ports = context.trial.ports.range
        self._rates, self._taken = BackgroundRates(self._topology), dict[int, float]()
        self._shaped = self._told = nominal(self._topology)
        self._settled = 0
        """Number of events that are done of those that :attr:`_shaped` knows."""

    def look(self, feed: Feed) -> float:
        """Tell of links that have another rate since the last look. Before the trial begins, links carry bursts that
        measure them, and nothing is said of other traffic."""
        begun_s = time.monotonic()
        if self._is_shaped_anew():  # first, for a host's answer may take long, and what was done to links is known here
            self._tell()
        found = () if feed.begun_s is None else self._lab.traffic(self._ports)
        for one in found:
            self._taken |= self._rates.since(one)
        if self._is_shaped_anew() or found:
            self._tell()
        reading_s, waited_s = max((one.took_s for one in found), default=0.0), time.monotonic() - begun_s
        return min(SELDOM_S, max(EVERY_S - waited_s, waited_s, reading_s / MOST_SHARE))

    def _is_shaped_anew(self) -> bool:
        """Whether events were done since this was asked."""
        before = self._settled
        self._settled = sum(record.done_s is not None and not record.error for record in list(self._records))
        if self._settled == before:
            return False
        self._shaped = shaped(self._topology, self._records)
        return True

    def _tell(self) -> None:
        now = left(self._shaped, self._taken, self._told)
        changed = {link: rate_bps for link, rate_bps in now.items() if rate_bps != self._told[link]}
        if changed:
            self._lab.tell(self._path, told(time.monotonic(), changed))
            self._told = now


def nominal(topology: Topology) -> dict[int, float]:
    """Rate of each directed link (bit/s) as the topology has it."""
    return dict(enumerate(topology.rates_bps))


def shaped(topology: Topology, records: Sequence[Record]) -> dict[int, float]:
    """Rate of each directed link (bit/s) after these events, as far as they are done and did not fail."""
    rates, blocked = nominal(topology), set[int]()
    for record in list(records):
        if record.done_s is None or record.error:
            continue
        for change in record.links:
            if change.rate_bps is not None:
                rates[change.directed_link] = float(change.rate_bps)
            if change.blocked is not None:
                (blocked.add if change.blocked else blocked.discard)(change.directed_link)
    return rates | dict.fromkeys(blocked, 0.0)
