"""The network monitor of a trial in simulated time: it tells the rates of links, less what flows of others take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from testbed.workloads.link_rates import EVERY_S, left
from testbed.workloads.play.wires import Wires


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
