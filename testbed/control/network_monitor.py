"""The network monitor of MLfabric (section 4): it looks at the rates of links again and again, and tells what changed.

What it sees is how links are shaped: at first as the topology has them, later as the trial's perturbations have changed
them. A link that carries nothing has rate 0. What it tells stands in a file of the trial's work folder
(:mod:`workloads.link_rates`); who follows it decides how late it learns of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from testbed.control.feed import Feed
from testbed.control.registry import Context
from testbed.perturb.conductor import Record
from topologies.model import Topology
from workloads.link_rates import NAME, line

EVERY_S = 0.1
"""Between two looks."""


class NetworkMonitor:
    """A controller; use in ``with``."""

    def __init__(self, context: Context) -> None:
        self._topology, self._records = context.trial.topology, context.records
        self._path = context.files.work / NAME
        self._told = nominal(self._topology)

    def __enter__(self) -> Self:
        self._file = self._path.open("x", buffering=1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def look(self, feed: Feed) -> float:  # noqa: ARG002 - it looks at links, not at processes
        """Tell of links that have another rate since the last look."""
        now = shaped(self._topology, self._records)
        changed = {link: rate_bps for link, rate_bps in now.items() if rate_bps != self._told[link]}
        if changed:
            self._file.write(line(time.monotonic(), changed))
            self._told = now
        return EVERY_S


def nominal(topology: Topology) -> dict[int, float]:
    """By directed link, its rate (bit/s) as the topology has it."""
    return {link: float(topology.links[link // 2].rate_bps) for link in range(2 * len(topology.links))}


def shaped(topology: Topology, records: Sequence[Record]) -> dict[int, float]:
    """By directed link, its rate (bit/s) after these events, as far as they are done and did not fail."""
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
