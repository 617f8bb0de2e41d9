"""Moves of circuits over all machines, in the steps of :mod:`testbed.lab.netns.network.patch`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.machines.on_machine.requests import MachineRequests
from testbed.lab.netns.network.patch import stay_dark


def move(fleet: Fleet, dark_s: float, leaving: threading.Event) -> tuple[float, float]:
    """Carry out the move that machines have planned. Return when the first circuit was dark, and when the last new one
    was in use (``time.monotonic``).

    Args:
        dark_s: seconds for which each circuit is dark at least.
        leaving: set when the network goes down meanwhile.

    Raises:
        LabError: the network goes down, a machine is lost, or its kernel refuses something.
    """
    parted_s = _ours_s(fleet, fleet.ask(MachineRequests.part()))
    fleet.ask(MachineRequests.reroute())
    stay_dark(max(parted_s) + dark_s, leaving)
    fleet.ask(MachineRequests.join())
    return min(parted_s), max(_ours_s(fleet, fleet.ask(MachineRequests.change_routes())))


def _ours_s(fleet: Fleet, theirs_s: Sequence[float]) -> list[float]:
    """Convert a moment of each machine to our clock."""
    return [one.clock.local_s(at_s) for one, at_s in zip(fleet.connections, theirs_s, strict=True)]
