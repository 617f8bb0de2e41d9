"""Servers joined by circuits of patch panels, without a packet switch (TopoOpt, sections 3.1 and 4).

Each of n servers has d interfaces, and interface i of every server is a port of panel i. Two servers are neighbours
where a circuit joins them; others are reached through servers, which forward (section 6, "indirect forwarding").

Two servers that several circuits join have a connection over each, between its two NICs. Their number is that of the
first network: connections stay while circuits move. A server forwards by address: to a NIC of a neighbour over the
circuit that ends there, if there is one, else over the lowest panel.

Two servers may also be given several routes, each to another NIC of the other, whose address has next hops of its own
(TopoOpt, Algorithm 1, line 20: k paths). They have a connection over each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.base.listing import shortened
from testbed.topologies.circuits import matchings, paths_and_ways
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.panels import RECONFIGURATION_S, Panels, Routing
from testbed.topologies.parameters import at_least, check_size
from testbed.topologies.shortest import steps_from
from testbed.topologies.topoopt.rings import coins_of, first_coins

Technology = Literal["patch_panel", "mems_3d", "mems_2d", "rotornet", "silicon_photonics", "tunable_lasers"]


def patch_panel(
    rate_bps: int,
    delay_s: float,
    *,
    servers: int,
    degree: int,
    rings: object = (),
    circuits: object = (),
    routes: object = (),
    routing: Routing = "shortest",
    technology: Technology = "patch_panel",
    reconfiguration_s: float | None = None,
    look_ahead: bool = False,
) -> Topology:
    """Circuit-switched: d interfaces a server to d patch panels, which can be moved while traffic runs (TopoOpt).

    Node ``p<i>`` is the panel of interface i, with server s on its port s; link ``s * degree + i`` leads there.

    Args:
        servers: n.
        degree: d, the interfaces of each server.
        rings: ring permutations, by stride or as an order of the servers, as :mod:`testbed.topologies.circuits` says;
            one ring where neither these nor ``circuits`` are given.
        circuits: matchings for the panels after those of the rings.
        routes: paths such as ``[0-1-2]``. Routes go by destination. ``[0-1-2@3,0-4-2@1,2-1-0@0,2-4-0@2]`` are two ways
            between 0 and 2 for a connection each: what is sent to the NIC on panel 3 of server 2 passes server 1.
        routing: how other traffic goes. ``shortest`` is a shortest path over circuits, over the lowest panel where
            several are as short. ``coin_change`` is a circuit to the destination itself, else CoinChangeMod's next step
            (Algorithm 3) over rings over all servers that are given by stride, else an error.
        technology: says how long a circuit is dark while it moves (Table 1).
        reconfiguration_s: the same as a number, if it is to be another.
        look_ahead: give each interface a 1x2 switch to a second panel, which is dark until the switches flip.

    Raises:
        TopologyError: circuits are no matchings of the servers' ports, or a route does not follow circuits.
    """
    at_least("patch_panel", 2, servers=servers)
    at_least("patch_panel", 1, degree=degree)
    check_size("patch_panel", servers * degree, servers=servers, degree=degree)
    if reconfiguration_s is not None and reconfiguration_s < 0:
        raise TopologyError(f"patch_panel: reconfiguration_s is {reconfiguration_s:g}", fix="give 0 or more")
    chosen = {
        "rings": rings or None,
        "circuits": circuits or None,
        "routes": routes or None,
        "routing": routing if routing != "shortest" else None,
        "technology": technology if technology != "patch_panel" else None,
        "reconfiguration_s": reconfiguration_s,
        "look_ahead": look_ahead or None,
    }
    params: dict[str, object] = {"servers": servers, "degree": degree}
    params |= {name: value for name, value in chosen.items() if value is not None}
    lit = matchings(servers, degree, rings if rings or circuits else (1,), circuits)
    dark = tuple(() for _ in range(degree))
    given, ways = paths_and_ways(servers, degree, routes)
    panels = Panels(
        sides=(lit, dark) if look_ahead else (lit,),
        position=(0,) * servers,
        reconfiguration_s=RECONFIGURATION_S[technology] if reconfiguration_s is None else reconfiguration_s,
        routes=given,
        routing=routing,
        ways=ways,
    )
    nodes = [Node(f"h{s}", "host", 0) for s in range(servers)] + [Node(f"p{i}", "panel", 1) for i in range(degree)]
    links = [Link(s, i, servers + i, s, rate_bps, delay_s) for s in range(servers) for i in range(degree)]
    return repatched(Topology("patch_panel", params, tuple(nodes), tuple(links), _Circuits()), panels)


def repatched(topology: Topology, panels: Panels) -> Topology:
    """Return the same servers and fibres with other circuits; ports, and with them addresses and connections, stay.

    Raises:
        TopologyError: a given route does not follow circuits, or two of them contradict each other.
    """
    router = _Circuits(topology if topology.panels else None)
    found = replace(topology, panels=panels, router=router)
    router.take(found, panels)
    return found


class _Circuits:
    """A router that goes by the destination alone: along given paths, else as the panels' ``routing`` says."""

    def __init__(self, before: Topology | None = None) -> None:
        """Set up; ``before`` is the network before circuits moved."""
        self._before = before
        self._given: dict[tuple[int, int], int] = {}
        """Directed link to leave by, for (server, destination)."""
        self._given_to: dict[tuple[int, int, int], int] = {}
        """Directed link to leave by, for (server, destination, the destination's NIC)."""
        self._ends: dict[tuple[int, int], list[int]] = {}
        """NICs at which the ways end, for source and destination with several ways."""
        self._towards: dict[int, dict[int, int]] = {}
        """Directed link to leave by, for destination and server, where no path is given."""
        self._first_coins: list[int] | None = None
        self._neighbours: list[list[tuple[int, int]]] = []
        """Neighbours of each server: for each lit interface, the link into its panel and the server at the other end of
        the circuit."""

    def take(self, topology: Topology, panels: Panels) -> None:
        """Follow the paths that ``panels`` gives. Raises TopologyError: no circuit is there, or two next hops."""
        for path in panels.routes:
            word = "-".join(map(str, path))
            for here, link in self._hops(topology, path, word):
                if self._given.setdefault((here, path[-1]), link) != link:
                    raise TopologyError(
                        f"{topology.expression}: route {word} leaves server {here} otherwise than another route to "
                        f"server {path[-1]} does",
                        fix="give one next hop for each server and destination: servers forward by destination",
                    )
        for path, nic in panels.ways:
            self._take_way(topology, path, nic)
        for (src, dst), ends in self._ends.items():
            back = max(1, len(self._ends.get((dst, src), [])))
            if len(ends) != back:
                raise TopologyError(
                    f"{topology.expression}: routes has {len(ends)} ways from {src} to {dst} that end at an interface, "
                    f"and {back} back",
                    fix="give as many in both directions: a connection has a way in each",
                )

    def _take_way(self, topology: Topology, path: Sequence[int], nic: int) -> None:
        """Follow a path as :meth:`take` does, to one NIC, over the circuit that ends there."""
        word = f"{'-'.join(map(str, path))}@{nic}"
        *hops, (before, _) = self._hops(topology, path, word)
        src, dst = path[0], path[-1]
        joining = self._joining(topology, before, dst)
        if nic not in joining:
            raise TopologyError(
                f"{topology.expression}: route {word} ends at interface {nic} of server {dst}, which no circuit joins "
                f"with server {before}",
                fix=f"end it at interface {' or '.join(map(str, joining))}",
            )
        for here, link in (*hops, (before, topology.ports[before][nic])):
            if self._given_to.setdefault((here, dst, nic), link) != link:
                raise TopologyError(
                    f"{topology.expression}: route {word} leaves server {here} otherwise than another route to "
                    f"interface {nic} of server {dst} does",
                    fix="give one next hop for each server and interface of a destination: servers forward by address",
                )
        ends = self._ends.setdefault((src, dst), [])
        if nic in ends:
            raise TopologyError(
                f"{topology.expression}: routes has two ways from {src} to {dst} that end at interface {nic}",
                fix="end each at another interface",
            )
        ends.append(nic)

    def _hops(self, topology: Topology, path: Sequence[int], word: str) -> list[tuple[int, int]]:
        """Return each server of a path but the last, and the directed link to the next, on the lowest panel."""
        found = []
        for here, there in pairwise(path):
            link = next((link for link, other in self.neighbours(topology)[here] if other == there), None)
            if link is None:
                raise TopologyError(
                    f"{topology.expression}: route {word} goes from {here} to {there}, which no circuit joins",
                    fix="join them, or route over servers that are joined",
                )
            found.append((here, link))
        return found

    def neighbours(self, topology: Topology) -> list[list[tuple[int, int]]]:
        if not self._neighbours:
            lit = topology.circuits
            ports = (topology.ports[server] for server in topology.hosts)
            self._neighbours = [[(link, topology.head(lit[link])) for link in links if link in lit] for links in ports]
        return self._neighbours

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        ports = self.met(topology, src, dst)
        paths = [self.towards(topology, src, dst, port) for port in ports]
        return tuple(Path(path.links, 1 / len(ports), number) for number, path in enumerate(paths))

    def towards(self, topology: Topology, src: int, dst: int, port: int) -> Path:
        links: list[int] = []
        here = src
        while here != dst:
            leave = self._given_to.get((here, dst, port))
            leave = self._leaves(topology, here, dst) if leave is None else leave
            if leave is None:
                raise _unreachable(topology, src, dst, self._towards[dst])
            if topology.head(topology.circuits[leave]) == dst and port in self._joining(topology, here, dst):
                leave = topology.ports[here][port]
            links += [leave, topology.circuits[leave]]
            here = topology.head(links[-1])
        return Path(tuple(links))

    def met(self, topology: Topology, src: int, dst: int) -> Sequence[int]:
        """Return for each connection of two servers the NIC of ``dst`` at which it ended before any circuits moved."""
        if self._before is not None:
            assert isinstance(self._before.router, _Circuits)
            return self._before.router.met(self._before, src, dst)
        if (src, dst) in self._ends:
            return self._ends[src, dst]
        joining = [] if (dst, src) in self._ends else self._joining(topology, src, dst)
        if len(joining) > 1 and self._is_direct(topology, src, dst) and self._is_direct(topology, dst, src):
            return joining
        # No port of this number, so at the last server the lowest panel is taken.
        last = self.towards(topology, src, dst, -1).links[-1]
        return [topology.port_at_tail(last ^ 1)]

    def _leaves(self, topology: Topology, here: int, dst: int) -> int | None:
        if dst not in self._towards:
            self._towards[dst] = self._ways(topology, dst)
        return self._given.get((here, dst), self._towards[dst].get(here))

    def _is_direct(self, topology: Topology, src: int, dst: int) -> bool:
        leave = self._leaves(topology, src, dst)
        return leave is not None and topology.head(topology.circuits[leave]) == dst

    def _joining(self, topology: Topology, here: int, there: int) -> list[int]:
        """Return the interfaces whose circuits join two servers, which are the same at both."""
        return [topology.port_at_tail(link) for link, other in self.neighbours(topology)[here] if other == there]

    def _ways(self, topology: Topology, dst: int) -> dict[int, int]:
        neighbours = self.neighbours(topology)
        assert topology.panels is not None
        if topology.panels.routing == "shortest":
            return _shortest(neighbours, dst)
        if self._first_coins is None:
            circuits = [(here, other) for here, links in enumerate(neighbours) for _, other in links]
            self._first_coins = first_coins(len(neighbours), coins_of(len(neighbours), circuits))
        found = {}
        for server, joined in enumerate(neighbours):
            # To the destination itself if a circuit leads there, else to the server that the first coin leads to.
            coin = self._first_coins[(dst - server) % len(neighbours)]
            wanted = dst if any(other == dst for _, other in joined) else (server + coin) % len(neighbours)
            if wanted != server:
                found[server] = next(link for link, other in joined if other == wanted)
        return found


def _shortest(neighbours: Sequence[Sequence[tuple[int, int]]], dst: int) -> dict[int, int]:
    """Return each server's lowest link that leads nearer to ``dst``; servers without a way are left out."""
    distance = steps_from([dst], lambda here: [other for _, other in neighbours[here]])
    return {
        server: next(link for link, other in neighbours[server] if distance[other] < far)
        for server, far in distance.items()
        if far
    }


def _unreachable(topology: Topology, src: int, dst: int, reaching: Mapping[int, int]) -> TopologyError:
    names = [topology.nodes[server].name for server in sorted(reaching)]
    shown = shortened(names, 6) or "no other server"
    ends = topology.nodes[src].name, topology.nodes[dst].name
    if topology.panels and topology.panels.routing == "coin_change":
        return TopologyError(
            f"{topology.expression}: no circuit joins {ends[0]} and {ends[1]}, and no rings over all servers lead "
            "there",
            fix="give rings by stride, such as rings=[1], or take routing=shortest",
        )
    return TopologyError(
        f"{topology.expression}: no circuits lead from {ends[0]} to {ends[1]}, which is joined with {shown}",
        fix="add circuits that join them, such as rings=[1]",
    )
