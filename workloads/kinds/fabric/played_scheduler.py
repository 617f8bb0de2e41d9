"""The scheduler of a trial in simulated time, and the monitor that tells it the rates of links, less what flows of
others take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.planner import Planner
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.played_transfers import Transfers
from testbed.workloads.kinds.fabric.processes.messages import Arrived, Decided, Nears, Note, Ready
from testbed.workloads.link_rates import EVERY_S, left
from testbed.workloads.play.wires import Wires

SOON_S = 1e-6
"""Least time between two looks at what is due: moments are not exact."""
Obey = Callable[[int, Note], None]
"""Has a node do what a note says that has come there."""


class Scheduler:
    """A scheduler, as :class:`.scheduler.Scheduler`: its planner hears what notes tell when they are there; planning
    takes no time."""

    def __init__(self, plan: Fabric, work: Work, wires: Wires, transfers: Transfers, obey: Obey) -> None:
        self._plan, self._wires, self._transfers, self._obey = plan, wires, transfers, obey
        self._planner = Planner(plan, work, hears_nears=True)
        self._looks_s = math.inf
        """When it looks next at what is due."""

    def said(self) -> dict[str, Any]:
        """Report as the process does."""
        transfers = self._planner.traffic.told()
        return {"time": 0.0, "clock_s": 0.0, "plans_s": [], "order": self._planner.order, "transfers": transfers}

    def tell(self, source: int, note: Ready | Decided | Arrived | Nears) -> None:
        """Send it a note from a node."""
        self._transfers.note(source, self._plan.scheduler, note, partial(self._hear, source, note))

    def change(self, rates_bps: Mapping[int, float]) -> None:
        """Have it hear of new rates, as late as it does."""
        self._wires.at(self._wires.now_s + self._plan.options.lag_s, partial(self._hear_rates, rates_bps))

    def _hear_rates(self, rates_bps: Mapping[int, float]) -> None:
        self._planner.rates(rates_bps, self._wires.now_s)
        self._look()

    def _hear(self, node: int, note: Ready | Decided | Arrived | Nears) -> None:
        self._planner.hear(node, note, self._wires.now_s)  # without LAST_S: here a transfer ends with its last byte
        self._look()

    def _look(self) -> None:
        """Do what is due, and look again when the next thing is."""
        now_s = self._wires.now_s
        for node, note in self._planner.tick(now_s):
            self._transfers.note(self._plan.scheduler, node, note, partial(self._obey, node, note))
        next_s = max(self._planner.next_s, now_s + SOON_S)
        if next_s < self._looks_s or self._looks_s <= now_s:
            self._looks_s = next_s
            if next_s < math.inf:
                self._wires.at(next_s, partial(self._look_again, next_s))

    def _look_again(self, due_s: float) -> None:
        if due_s == self._looks_s:
            self._look()


class Monitor:
    """A monitor as :class:`testbed.control.network_monitor.NetworkMonitor`; a look takes no time.

    It tells nothing once ``is_awaited`` returns False, or a trial whose links change again and again would not end.
    """

    def __init__(
        self, wires: Wires, tell: Callable[[Mapping[int, float]], None], is_awaited: Callable[[], bool]
    ) -> None:
        self._wires, self._tell, self._is_awaited = wires, tell, is_awaited
        self._shaped = dict(enumerate(wires.links.topology.rates_bps))
        self._told, self._taken = self._shaped.copy(), dict[int, float]()
        if wires.links.has_flows:
            self._before = wires.links.others_bytes()
            wires.at(wires.now_s + EVERY_S, self._look)

    def change(self, rates_bps: Mapping[int, float]) -> None:
        """Tell of links that have these rates now."""
        if not self._is_awaited():
            return
        if not self._wires.links.has_flows:
            self._tell(rates_bps)
            return
        self._shaped |= rates_bps
        self._tell_of_changes()

    def _look(self) -> None:
        """Tell what flows have taken since the last look; look again, unless nothing moves any more."""
        if not self._is_awaited() or self._wires.links.is_stuck(math.inf):
            return
        now = self._wires.links.others_bytes()
        self._taken = dict(enumerate((8 * (now - self._before) / EVERY_S).tolist()))
        self._before = now
        self._tell_of_changes()
        self._wires.at(self._wires.now_s + EVERY_S, self._look)

    def _tell_of_changes(self) -> None:
        now = left(self._shaped, self._taken, self._told)
        changed = {link: rate_bps for link, rate_bps in now.items() if rate_bps != self._told[link]}
        if changed:
            self._told = now
            self._tell(changed)
