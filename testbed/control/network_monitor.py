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
from collections.abc import Sequence

from testbed.control.background_rates import BackgroundRates
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Context
from testbed.topologies.model import Topology
from testbed.workloads.link_rates import EVERY_S, NAME, left, told

SELDOM_S = 1.0
"""Seconds between two looks where they take long."""
MOST_SHARE = 0.05
"""Share of the time that a machine may take to read: where it takes longer, there are fewer looks."""


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
