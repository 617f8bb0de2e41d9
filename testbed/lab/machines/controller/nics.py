"""NICs between machines: how much they carry, measured once, and how much they were used for in a trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.networks.measuring import PROBE_S, UNKNOWN_BPS, rates
from testbed.lab.machines.on_machine.requests import MachineRequests
from testbed.lab.measurements import Burst, Way

_Row = tuple[float, Sequence[Sequence[int]]]
"""Moment of a reading (s), and of each machine bytes sent and received, and packets lost."""


class Nics:
    """NICs of machines, each by its machine's number."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rates_bps: list[float] = []
        self._now: list[_Row] = []
        self._last: list[_Row] = []

    def measure(self, fleet: Fleet, addresses: Sequence[str], names: Sequence[str]) -> None:
        """Measure, unless that was done, how much each NIC carries while every machine sends to the next one (bit/s of
        payload). A NIC is as fast as its slower direction.

        Raises:
            LabError: it could not be measured.
        """
        self._names = list(names)
        count = len(addresses)
        if self._rates_bps or count < 2:
            return
        to = [(number + 1) % count for number in range(count)]
        ways = [Way(_own(a), _own(b), addresses[a], addresses[b]) for a, b in enumerate(to)]
        came = rates(fleet, [Burst(way, UNKNOWN_BPS, PROBE_S) for way in ways], at=_own)
        found = [min(came[number], came[number - 1]) for number in range(count)]
        if not all(found):
            name = fleet.connections[found.index(0)].name
            raise LabError(
                f"{name}: nothing arrived over its NIC", fix="see the network between machines, and firewalls"
            )
        self._rates_bps = found

    def read(self, fleet: Fleet, *, ends: bool = False) -> None:
        """Read all NICs. A trial is what lies between two readings that are its ``ends``."""
        row = time.monotonic(), fleet.ask_each([MachineRequests.nic(name) for name in self._names])
        self._now.append(row)
        if ends:
            self._last, self._now = self._now, [row]

    def used(self, machines: Sequence[str], most_bps: Sequence[float]) -> list[dict[str, Any]]:
        """Say what NICs were used for in the last trial, as :func:`testbed.fidelity.underlay.judge` wants it."""
        found = []
        for number, name in enumerate(machines):
            rows = [(at_s, counts[number]) for at_s, counts in self._last]
            peaks = [
                8 * max(after[way] - before[way] for way in (0, 1)) / (until_s - since_s)
                for (since_s, before), (until_s, after) in pairwise(rows)
            ]
            dropped = rows[-1][1][2] - rows[0][1][2] if rows else 0
            found.append(
                {
                    "machine": name,
                    "nic": self._names[number],
                    "rate_bps": self._rates_bps[number],
                    "most_bps": most_bps[number],
                    "peak_bps": max(peaks, default=0.0),
                    "dropped": dropped,
                }
            )
        return found


def _own(number: int) -> int:
    """Number of a machine as a node, which is the machine itself, and back: below 0, as no node's is."""
    return -1 - number
