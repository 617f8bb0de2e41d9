"""Patch panels as data: the ports that they join, and the panels that the 1x2 switches look at (TopoOpt, sections 3.1
and 4).

Interface i of every server is a port of panel i, and a circuit joins two ports of one panel, full duplex. So the
circuits of a panel are a matching of the servers. With look-ahead, interface i has a 1x2 switch to panel i and to
panel d + i: one of them carries its light, while the other can be patched for what comes next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from testbed.base.errors import TopologyError

Matching = tuple[tuple[int, int], ...]
"""Pairs of servers, sorted, the lower first in each; a server is in one pair at most."""
Routes = tuple[tuple[int, ...], ...]
"""Paths, each as the servers that it passes."""
Ways = tuple[tuple[tuple[int, ...], int], ...]
"""Paths, each with the interface of its last server at which it ends."""
Routing = Literal["shortest", "coin_change"]

RECONFIGURATION_S: dict[str, float] = {
    "patch_panel": 180.0,  # "minutes", in the text "several minutes"; three are our reading
    "mems_3d": 10e-3,
    "mems_2d": 11.5e-6,
    "rotornet": 10e-6,
    "silicon_photonics": 900e-9,
    "tunable_lasers": 3.8e-9,
}
"""How long (s) a circuit is dark while it moves, by technology (TopoOpt, section 4, Table 1)."""


@dataclass(frozen=True)
class Panels:
    """The panels of servers with d interfaces each.

    Attributes:
        sides: by side, by interface, what that panel joins. One side; with look-ahead a second, panels d to 2d - 1.
        position: by server, the side that its 1x2 switches look at.
        reconfiguration_s: for how long a circuit is dark while it moves.
        routes: paths that traffic takes where what ``routing`` says is not wanted.
        routing: which way all other traffic takes.
        ways: paths of two servers' parallel connections, each to another NIC.
    """

    sides: tuple[tuple[Matching, ...], ...]
    position: tuple[int, ...]
    reconfiguration_s: float
    routes: Routes = ()
    routing: Routing = "shortest"
    ways: Ways = ()

    def __repr__(self) -> str:
        """Show the panels. Identities of trials depend on this text, so it leaves out fields that older versions did
        not have, as long as they have their defaults."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.routing == "shortest":
            del known["routing"]
        if not self.ways:
            del known["ways"]
        return f"Panels({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    @property
    def servers(self) -> int:
        return len(self.position)

    @property
    def degree(self) -> int:
        """Interfaces of each server."""
        return len(self.sides[0])

    @property
    def lit(self) -> tuple[Matching, ...]:
        """Circuits that carry light, by interface: both ends look at the panel that joins them."""
        return tuple(
            tuple(sorted(pair for side, panel in enumerate(panels) for pair in panel if self._is_lit(pair, side)))
            for panels in zip(*self.sides, strict=True)
        )

    def _is_lit(self, pair: tuple[int, int], side: int) -> bool:
        return all(self.position[server] == side for server in pair)

    def patch(self, matchings: Sequence[Matching], *, look_ahead: bool = False) -> Panels:
        """Return panels with these circuits, by interface, on all ports that carry light, or on all that look ahead.

        Routes that were given for other circuits are forgotten.

        Raises:
            TopologyError: there is no look-ahead, or the two ends of a circuit are on different panels.
        """
        if look_ahead:
            self._need_look_ahead()
        wanted = [1 - side if look_ahead else side for side in self.position]
        for a, b in (pair for pairs in matchings for pair in pairs):
            if wanted[a] != wanted[b]:
                raise TopologyError(
                    f"circuit {a}-{b}: the 1x2 switches of the two servers are set differently, so their ports are on "
                    "different panels",
                    fix="flip one of the two servers first",
                )
        sides = tuple(
            tuple(
                _repatched(old, new, [at == side for at in wanted]) for old, new in zip(panels, matchings, strict=True)
            )
            for side, panels in enumerate(self.sides)
        )
        return replace(
            self, sides=sides, routes=self.routes if look_ahead else (), ways=self.ways if look_ahead else ()
        )

    def flip(self, servers: Collection[int] = ()) -> Panels:
        """Return panels where the 1x2 switches of these servers, or of all if none is named, are set to their other
        panels.

        Raises:
            TopologyError: there is no look-ahead, or no such server.
        """
        self._need_look_ahead()
        for server in servers:
            if not 0 <= server < self.servers:
                raise TopologyError(f"flip names server {server}", fix=f"name servers 0 to {self.servers - 1}")
        flipped = set(servers) or set(range(self.servers))
        position = tuple(1 - side if server in flipped else side for server, side in enumerate(self.position))
        return replace(self, position=position, routes=(), ways=())

    def among(self, servers: Sequence[int], matchings: Sequence[Matching]) -> Panels:
        """Return panels with these circuits among some servers, and no others at their ports: with look-ahead, on the
        ports that look ahead, to which the servers' switches then turn.

        Raises:
            TopologyError: the servers' 1x2 switches are set differently.
        """
        own, (side, *different) = set(servers), sorted({self.position[server] for server in servers})
        if different:
            raise TopologyError(
                "the 1x2 switches of these servers are set differently, so their ports that look ahead are on "
                "different panels",
                fix="give jobs hosts that earlier jobs had together",
            )
        to = 1 - side if len(self.sides) > 1 else side
        passing = [path for path, _ in self.ways if not own.isdisjoint(path)]
        crossed = {ends for path in passing for ends in ((path[0], path[-1]), (path[-1], path[0]))}
        panels = tuple(
            tuple(sorted([*(pair for pair in old if own.isdisjoint(pair)), *new]))
            for old, new in zip(self.sides[to], matchings, strict=True)
        )
        return replace(
            self,
            sides=tuple(panels if number == to else one for number, one in enumerate(self.sides)),
            position=tuple(to if server in own else at for server, at in enumerate(self.position)),
            routes=tuple(path for path in self.routes if own.isdisjoint(path)),
            ways=tuple((path, nic) for path, nic in self.ways if (path[0], path[-1]) not in crossed),
        )

    @property
    def looks_ahead(self) -> bool:
        """Whether each interface has a second panel."""
        return len(self.sides) > 1

    def _need_look_ahead(self) -> None:
        if len(self.sides) < 2:
            raise TopologyError("these patch panels have no look-ahead ports", fix="add look_ahead=true to patch_panel")


def _repatched(old: Matching, new: Matching, is_free: Sequence[bool]) -> Matching:
    """Return a panel's circuits: new ones on free ports, and the old ones on all others."""
    kept = [pair for pair in old if not any(is_free[server] for server in pair)]
    return tuple(sorted([*kept, *(pair for pair in new if is_free[pair[0]])]))
