"""Circuits and routes for MP transfers (TopoOpt, Algorithm 1, lines 13 to 20).

Circuits are a maximum-weight matching a panel. A circuit is full duplex, so a pair weighs what its two servers send to
each other, T_MP[i, j] + T_MP[j, i]. The weight is halved for each circuit that joins the pair already, those of rings
included: section 3.3 halves it "for pairs that already have an edge between them". Halves stay exact: all weights are
multiplied by a power of two first.

Routes are shortest over all circuits. The largest demand chooses first, and of the ways that are as short it takes the
less loaded link at each step. Servers forward by destination address, so a step that one route has fixed at a server is
every route's to that address.

One path a pair: servers forward by destination, whichever NIC a route arrives at. Of k paths each ends at another NIC,
whose address is another, and the next hops of each address are its own. Servers that circuits join take these alone:
AllReduce between them would share all paths. Two servers have as many paths in both directions, as a connection has one
in each; a pair that sends in one direction has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TopologyError
from testbed.topologies.panels import Matching
from testbed.topologies.shortest import steps_from


def mp_circuits(
    mp_bytes: NDArray[np.int64], joined: Mapping[tuple[int, int], int], free: Sequence[Collection[int]]
) -> list[Matching]:
    """Choose for each panel the circuits that carry most of T_MP; a port that finds no partner stays dark.

    Args:
        joined: by pair, the lower server first, the circuits that are there before.
        free: by panel, the servers whose ports there are dark.
    """
    weights = {
        (i, j): int(mp_bytes[i, j] + mp_bytes[j, i]) for i, j in np.argwhere(mp_bytes + mp_bytes.T).tolist() if i < j
    }
    count = Counter(joined)
    most = max(count.values(), default=0) + len(free)
    found = []
    for servers in free:
        ports = set(servers)
        scaled = {pair: w << (most - count[pair]) for pair, w in weights.items() if ports.issuperset(pair)}
        found.append(heaviest(scaled))
        count.update(found[-1])
    return found


def heaviest(weights: Mapping[tuple[int, int], int]) -> Matching:
    """Find a matching of maximum weight (Edmonds' blossom algorithm), exact for whole numbers."""
    import networkx as nx  # here, for every command imports this module, and it takes a tenth of a second

    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, weight) for (i, j), weight in weights.items())
    return tuple(sorted((min(pair), max(pair)) for pair in nx.max_weight_matching(graph)))


Load = Mapping[tuple[int, int], int]
"""Bytes by source and destination of a circuit, over all circuits that join the two."""


@dataclass(frozen=True, slots=True)
class MpRoute:
    """A path of servers for a part of a pair's bytes; ``panel`` is the one by which it reaches its last server."""

    path: tuple[int, ...]
    transfer_bytes: float
    panel: int

    @property
    def hops(self) -> int:
        return len(self.path) - 1


class Circuits:
    """The circuits of the panels, and the bytes that cross them."""

    def __init__(self, servers: int, panels: Sequence[Matching], load: Load) -> None:
        self.ports: list[list[tuple[int, int]]] = [[] for _ in range(servers)]
        """Panel and neighbour of each lit port, by server."""
        for panel, pairs in enumerate(panels):
            for a, b in pairs:
                self.ports[a].append((panel, b))
                self.ports[b].append((panel, a))
        self.parallel = [Counter(other for _, other in ports) for ports in self.ports]
        """Neighbours of each server, and the number of circuits to each."""
        self.load = Counter(load)

    def distances(self, to: int, without: int | None = None) -> list[int]:
        """Compute for each server the number of circuits of a shortest way to the server ``to``; -1 where there is
        none. No way passes the server ``without``."""
        found = steps_from([to], lambda here: [other for other in self.parallel[here] if other != without])
        return [found.get(server, -1) for server in range(len(self.ports))]

    def load_of(self, here: int, there: int) -> int:
        """Return the bytes of each of the circuits that join two servers, in one direction."""
        return self.load[here, there] // self.parallel[here][there]


def mp_routes(circuits: Circuits, pairs: Sequence[tuple[int, int, int]], paths: int = 1) -> list[MpRoute]:
    """Choose up to ``paths`` routes for each transfer (source, destination, bytes), with equal parts of it.

    Raises:
        TopologyError: no circuits lead there.
    """
    sends = {pair[:2] for pair in pairs}
    chooser = _ByDestination(circuits) if paths == 1 else _ByNic(circuits, paths, sends)
    found = []
    for source, destination, size in sorted(pairs, key=lambda pair: (-pair[2], pair[:2])):
        chosen = chooser.choose(source, destination)
        for path, panel in chosen:
            found.append(MpRoute(path, size / len(chosen), panel))
            for step in pairwise(path):
                circuits.load[step] += size // len(chosen)
    return found


Chosen = list[tuple[tuple[int, ...], int]]
"""Paths, and the panel by which each reaches its last server."""


class _Steps:
    """The next hops towards one address, as they become fixed."""

    def __init__(self, distance: Sequence[int]) -> None:
        self.distance = distance
        self.fixed: dict[int, int] = {}

    def walk(self, circuits: Circuits, here: int) -> list[int]:
        """Walk from a server to the one at distance 0, and return the servers passed."""
        path = [here]
        while self.distance[here]:
            if here not in self.fixed:
                nearer = [other for other in circuits.parallel[here] if self.distance[other] == self.distance[here] - 1]
                self.fixed[here] = min(nearer, key=lambda other: (circuits.load_of(here, other), other))
            here = self.fixed[here]
            path.append(here)
        return path


class _ByDestination:
    def __init__(self, circuits: Circuits) -> None:
        self.circuits = circuits
        self._steps: dict[int, _Steps] = {}

    def choose(self, source: int, destination: int) -> Chosen:
        if destination not in self._steps:
            self._steps[destination] = _Steps(self.circuits.distances(destination))
        steps = self._steps[destination]
        if steps.distance[source] < 0:
            raise _unreachable(source, destination)
        path = steps.walk(self.circuits, source)
        panel = next(panel for panel, other in self.circuits.ports[destination] if other == path[-2])
        return [(tuple(path), panel)]


class _ByNic:
    def __init__(self, circuits: Circuits, paths: int, sends: Collection[tuple[int, int]]) -> None:
        """Set up; ``sends`` are the source and destination of each transfer."""
        self.circuits = circuits
        self.paths = paths
        self._sends = sends
        self._steps: dict[tuple[int, int], _Steps] = {}

    def choose(self, source: int, destination: int) -> Chosen:
        """Choose the NICs that are reached by the fewest circuits, of those the ones with less loaded circuits."""
        nics = self._nics(source, destination)
        if not nics:
            raise _unreachable(source, destination)
        paths = self.paths if (destination, source) in self._sends else 1
        paths = min(paths, len(nics), len(self._nics(destination, source)))
        chosen = [(panel, self._towards(destination, panel, last)) for _, _, panel, last in sorted(nics)[:paths]]
        return [((*steps.walk(self.circuits, source), destination), panel) for panel, steps in chosen]

    def _nics(self, source: int, destination: int) -> list[tuple[int, int, int, int]]:
        """List for each NIC that can be reached: circuits on the way to the server before the last circuit, load of
        that circuit, panel, and that server. For neighbours only the circuits that join them count."""
        found = []
        for panel, last in self.circuits.ports[destination]:
            hops = self._towards(destination, panel, last).distance[source]
            if hops >= 0 and (not hops or source not in self.circuits.parallel[destination]):
                found.append((hops, self.circuits.load_of(last, destination), panel, last))
        return found

    def _towards(self, destination: int, panel: int, last: int) -> _Steps:
        """Return the ways to the server before the destination, not through the destination itself."""
        if (destination, panel) not in self._steps:
            self._steps[destination, panel] = _Steps(self.circuits.distances(last, without=destination))
        return self._steps[destination, panel]


def _unreachable(source: int, destination: int) -> TopologyError:
    return TopologyError(
        f"topoopt: no circuits lead from server {source} to server {destination}", fix="join all servers by a ring"
    )
