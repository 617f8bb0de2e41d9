"""How much of links traffic takes that is not the trial's own: what they carried less what its connections did.

The kernel counts both at every moment, so that what is still on its way counts as neither: on the first link of a way,
what has left or waits there is compared with what the sender's end of a connection has sent; on the others, what has
left with what the receiver's end has got.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from testbed.lab.measurements import Passed, Traffic
from topologies.addressing import plan
from topologies.model import Topology

_Own = Mapping[tuple[str, str, tuple[int, int]], int]
"""Bytes by connection: addresses of both ends, and their ports."""
_NONE: _Own = {}


class BackgroundRates:
    """Follows the traffic of a network with one path between two hosts."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._owner = {address: node for (node, _), (address, _) in plan(topology).host.items()}
        self._first = {link for host in topology.hosts for link in topology.ports[host]}
        self._ways: dict[tuple[int, int], tuple[int, ...]] = {}
        self._before: tuple[float, dict[int, int], Mapping[int, _Own]] | None = None

    def since(self, traffic: Traffic, now_s: float) -> dict[int, float]:
        """By directed link, the rate of other traffic (bit/s, headers included) since the last call; nothing at the
        first one, nor of a link on which a connection of the trial's has ended meanwhile."""
        own, before = self._own(traffic), self._before
        carried = {one.directed_link: self._entered(one) for one in traffic.links}
        self._before = now_s, carried, own
        if before is None or now_s <= before[0]:
            return {}
        then_s, then, ours = before
        return {
            link: max(0.0, 8 * (count - then[link] - new) / (now_s - then_s))
            for link, count in carried.items()
            if link in then and (new := _new(ours.get(link, _NONE), own.get(link, _NONE))) is not None
        }

    def _entered(self, one: Passed) -> int:
        return one.left_bytes + (one.waiting_bytes if one.directed_link in self._first else 0)

    def _own(self, traffic: Traffic) -> Mapping[int, _Own]:
        """By directed link, the bytes of the trial's connections."""
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


def _new(before: _Own, now: _Own) -> int | None:
    """The bytes since; None if a connection has ended meanwhile, for nobody tells what it sent last."""
    if any(now.get(which, -1) < count for which, count in before.items()):
        return None
    return sum(now.values()) - sum(before.values())
