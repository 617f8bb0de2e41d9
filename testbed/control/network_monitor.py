"""The network monitor of MLfabric (section 4): it looks at the rates of links again and again, and tells what changed.

It sees how links are shaped, less what other traffic takes of them. They are shaped at first as the topology has them,
later as the trial's perturbations have changed them. A link that carries nothing has rate 0. Other traffic is
what the kernel has counted on a link less what it has counted of the trial's own connections
(:mod:`testbed.control.background_rates`).

It tells in a file of the trial's work folder (:mod:`testbed.workloads.link_rates`). The scheduler follows that file,
and decides how late it learns of a change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from testbed.control.background_rates import BackgroundRates
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Context
from testbed.topologies.model import Topology
from testbed.workloads.link_rates import NAME, told

EVERY_S, SELDOM_S = 0.1, 1.0
"""Seconds between two looks; the latter where they take long."""
MOST_SHARE = 0.05
"""Share of the time that a machine may take to read: where it takes longer, there are fewer looks."""
NOTICED = 0.05
"""Share of a link below which other traffic is not told of, nor a change of it: each change has the scheduler plan
anew."""
LEFT = 0.1
"""Share of a link that other traffic leaves at least. TCP gives each flow a share, and a scheduler that is told of none
sends nothing any more."""


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


def left(
    shaped_bps: Mapping[int, float], taken_bps: Mapping[int, float], told_bps: Mapping[int, float]
) -> dict[int, float]:
    """Rate that other traffic leaves of each directed link; what was ``told_bps`` where that is about the same."""
    found = {}
    for link, rate_bps in shaped_bps.items():
        taken = taken_bps.get(link, 0.0)
        now = rate_bps if taken < NOTICED * rate_bps else max(LEFT * rate_bps, rate_bps - taken)
        is_same = 0 < now < rate_bps and abs(now - told_bps[link]) < NOTICED * rate_bps
        found[link] = told_bps[link] if is_same else now
    return found
