"""NICs between machines: how much they carry, measured once; how much they were used for in a trial, and whether they
were cut off from each other meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, permutations
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.baremetal.networks.measuring import PROBE_S, UNKNOWN_BPS, rates
from testbed.lab.machines.on_machine.requests import MachineRequests
from testbed.lab.measurements import Burst, Interruption, Way

TRAVEL_S = 0.5
"""Seconds after which a packet between machines is lost if it has not come."""
CUT_S = 1.0
"""Shortest time without a packet that counts as a cut (s)."""


@dataclass(frozen=True)
class _Row:
    """A reading: its number, its moment (s), and what each machine says (:meth:`MachineRequests.nic`)."""

    number: int
    at_s: float
    told: Sequence[Mapping[str, Any]]


class Nics:
    """NICs of machines, each by its machine's number."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._ends: list[tuple[str, int]] = []
        """Addresses and ports for beats, by machine."""
        self._count = 0
        self._rates_bps: list[float] = []
        self._rows: list[_Row] = []
        self._allowed_bps: list[Sequence[float]] = []
        """The highest rates at which links between machines use each NIC: when the trial began, and after changes."""

    def measure(self, fleet: Fleet, ends: Sequence[tuple[str, int]], names: Sequence[str]) -> None:
        """Measure, unless that was done, how much each NIC carries while every machine sends to the next one (bit/s of
        payload). A NIC is as fast as its slower direction.

        Args:
            ends: address of each machine's NIC, and the port for beats there.
            names: names of the NICs.

        Raises:
            LabError: it could not be measured.
        """
        self._names, self._ends, self._rows, self._allowed_bps = list(names), list(ends), [], []
        count = len(ends)
        if self._rates_bps or count < 2:
            return
        to = [(number + 1) % count for number in range(count)]
        ways = [Way(_own(a), _own(b), ends[a][0], ends[b][0]) for a, b in enumerate(to)]
        came = rates(fleet, [Burst(way, UNKNOWN_BPS, PROBE_S) for way in ways], at=_own)
        found = [min(came[number], came[number - 1]) for number in range(count)]
        if not all(found):
            name = fleet.connections[found.index(0)].name
            raise LabError(
                f"{name}: nothing arrived over its NIC", fix="see the network between machines, and firewalls"
            )
        self._rates_bps = found

    def begin(self, fleet: Fleet) -> None:
        """Begin a trial: what was before does not count."""
        self._rows, self._allowed_bps = [], self._allowed_bps[-1:]
        self.read(fleet)

    def allow(self, most_bps: Sequence[float]) -> None:
        """Note what links between machines can use of each NIC from now on (bit/s): each is full at its rate."""
        self._allowed_bps.append(most_bps)

    def read(self, fleet: Fleet) -> None:
        """Read all NICs. A trial lasts until the last reading."""
        self._count += 1
        calls = [
            MachineRequests.nic(name, self._count, [end for end in self._ends if end != own])
            for name, own in zip(self._names, self._ends, strict=True)
        ]
        self._rows.append(_Row(self._count, time.monotonic(), fleet.ask_each(calls)))

    def used(self, machines: Sequence[str]) -> list[dict[str, Any]]:
        """Say what NICs were used for in the trial, as :func:`testbed.fidelity.underlay.judge` wants it. Of rates that
        links had one after another, those count with which they could use the most."""
        found = []
        for number, name in enumerate(machines):
            rows = [(row.at_s, row.told[number]["counts"]) for row in self._rows]
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
                    "most_bps": max(most_bps[number] for most_bps in self._allowed_bps),
                    "peak_bps": max(peaks, default=0.0),
                    "dropped": dropped,
                }
            )
        return found

    def interruptions(self, machines: Sequence[str]) -> list[Interruption]:
        """List the times in which nothing came to a machine from another one, in the trial; they may be longer than the
        network was cut."""
        pairs = permutations(range(len(machines)), 2)
        return [
            Interruption(f"nothing came to {machines[receiver]} from {machines[sender]}", begun_s, done_s)
            for receiver, sender in pairs
            for begun_s, done_s in self._cuts(receiver, self._ends[sender][0])
        ]

    def _cuts(self, receiver: int, address: str) -> Iterator[tuple[float, float]]:
        """Yield from when to when (s) nothing came to a machine from an address."""
        rows = self._rows
        came = {number for row in rows for number in row.told[receiver]["heard"].get(address, ())}
        known = [row for row in rows if row.at_s + TRAVEL_S <= rows[-1].at_s]
        for is_here, cut in groupby(known, key=lambda row: row.number in came):
            if not is_here:
                lost = [row.number - rows[0].number for row in cut]
                begun_s, done_s = rows[max(lost[0] - 1, 0)].at_s, rows[lost[-1] + 1].at_s
                if done_s - begun_s >= CUT_S:
                    yield begun_s, done_s


def _own(number: int) -> int:
    """Number of a machine as a node, which is the machine itself, and back: below 0, as no node's is."""
    return -1 - number
