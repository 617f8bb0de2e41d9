"""A network for the prediction: the links of each route, and the load of an AllReduce on each link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Path, Router, Topology
from testbed.topologies.topoopt.finder import Found
from testbed.workloads.parallel.strategy import Holders, exchanged
from testbed.workloads.sync.cost import cost_of_flows
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.trees import rings

Routes = tuple[tuple[float, tuple[int, ...]], ...]
"""The share of a transfer on each path, and the path's directed links."""


@dataclass(frozen=True)
class Exchange:
    """Transfers from the holders of one operator to those of another.

    Attributes:
        sends: by server: to whom, samples of how many servers, and by which routes; none to itself.
        parts: each receiver, and the parts that reach it: one for each path.
    """

    sends: Mapping[int, tuple[tuple[int, int, Routes], ...]]
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class AllReduce:
    """AllReduce of one byte in a group.

    Attributes:
        links: the directed links that it uses, without those that lead out of a patch panel,
        link_bytes: and how much it puts on each.
        all_link_bytes: float64[2 x links], by directed link.
        pair_bytes: float64[n, n], by source and destination.
        rounds_s: how long the delays of links take, of all transfers that must follow each other.
    """

    links: tuple[int, ...]
    link_bytes: tuple[float, ...]
    all_link_bytes: NDArray[np.float64]
    pair_bytes: NDArray[np.float64]
    rounds_s: float


class Network:
    """A topology with its groups' rings. It remembers routes, so make one for many predictions.

    Circuits that join the same two servers share their transfers evenly, as parallel connections do.

    Args:
        rings: by members of a group, the orders in which its rings pass them, which have equal parts of a gradient. A
            group without has one ring in the order of the servers' numbers, in both directions.
        goodput: the share of a link's rate that carries payload.
    """

    def __init__(
        self, topology: Topology, rings: Mapping[Holders, Sequence[Sequence[int]]] | None = None, goodput: float = 1.0
    ) -> None:
        self.topology = replace(topology, router=_Parallel(topology.router)) if topology.panels else topology
        self.rings = rings or {}
        self.link_s_per_byte = [8 / (link.rate_bps * goodput) for link in topology.links for _ in range(2)]
        self.link_delay_s = [link.delay_s for link in topology.links for _ in range(2)]
        self._routes: dict[tuple[int, int], Routes] = {}
        self._exchanges: dict[tuple[Holders, Holders], Exchange] = {}
        self._allreduces: dict[Holders, AllReduce] = {}

    @property
    def servers(self) -> int:
        return self.topology.host_count

    def exchange(self, one: Holders, other: Holders) -> Exchange:
        """Return the transfers from the first holders to the second."""
        if (one, other) not in self._exchanges:
            self._exchanges[one, other] = self._exchange(one, other)
        return self._exchanges[one, other]

    def _exchange(self, one: Holders, other: Holders) -> Exchange:
        sends: dict[int, list[tuple[int, int, Routes]]] = {}
        parts: dict[int, int] = {}
        for a, b, count in sorted(exchanged(self.servers, one, other), key=self._in_turn):
            routes = self.routes(a, b)
            sends.setdefault(a, []).append((b, count, routes))
            parts[b] = parts.get(b, 0) + max(1, len(routes))
        return Exchange({a: tuple(to) for a, to in sends.items()}, tuple(sorted(parts.items())))

    def _in_turn(self, sent: tuple[int, int, int]) -> int:
        """Return the sort key of transfers: the next server first, so that not all begin with the same one."""
        a, b, _ = sent
        return (b - a) % self.servers

    def routes(self, src: int, dst: int) -> Routes:
        """Return the routes without links that lead out of a patch panel: those into it carry the same."""
        if src == dst:
            return ()
        if (src, dst) not in self._routes:
            self._routes[src, dst] = tuple(
                (path.weight, tuple(link for link in path.links if link not in self._out_of_panels))
                for path in self.topology.paths(src, dst)
            )
        return self._routes[src, dst]

    @property
    def links_that_decide(self) -> list[int]:
        """All directed links but those that lead out of a patch panel."""
        return [link for link in range(len(self.link_s_per_byte)) if link not in self._out_of_panels]

    @cached_property
    def _out_of_panels(self) -> frozenset[int]:
        return frozenset(self.topology.circuits.values())

    def with_lit(self, link_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return bytes by directed link, with the same out of a patch panel as into it."""
        lit = self.topology.circuits
        link_bytes[list(lit.values())] = link_bytes[list(lit)]
        return link_bytes

    def name(self, link: int) -> str:
        """Name a directed link by its ends: ``h0-s0``, or ``h0-p1-h3`` where a circuit leads on."""
        topology = self.topology
        out = topology.circuits.get(link)
        ends = [topology.tail(link), topology.head(link)] + ([] if out is None else [topology.head(out)])
        return "-".join(topology.nodes[end].name for end in ends)

    def allreduce(self, members: Holders) -> AllReduce:
        """Return the AllReduce of a group, along the edges of its forest."""
        if members not in self._allreduces:
            self._allreduces[members] = self._allreduce(members)
        return self._allreduces[members]

    def _allreduce(self, members: Holders) -> AllReduce:
        forest = self.forest(members)
        traffic = flows(forest, 1.0)
        rounds = 2 * (len(members) - 1)
        link_bytes = cost_of_flows(traffic, self.topology, rounds).link_bytes
        used = [link for link in np.flatnonzero(link_bytes).tolist() if link not in self._out_of_panels]
        pair_bytes = np.zeros((self.servers, self.servers))
        pair_bytes[traffic.senders, traffic.receivers] = traffic.count_bytes
        delays = (self._delay_s(src, dst) for src, dst, _ in traffic) if any(self.link_delay_s) else ()
        return AllReduce(
            links=tuple(used),
            link_bytes=tuple(link_bytes[used].tolist()),
            all_link_bytes=link_bytes,
            pair_bytes=pair_bytes,
            rounds_s=rounds * max(delays, default=0.0),
        )

    def _delay_s(self, src: int, dst: int) -> float:
        return max(sum(self.link_delay_s[link] for link in path.links) for path in self.topology.paths(src, dst))

    def forest(self, members: Holders) -> Forest:
        """Make a forest of a group's rings, with equal parts of its gradient (as ``multi_ring``)."""
        orders = self.rings.get(members) or [members, members[::-1]]
        return rings(self.topology, [list(order) for order in orders])


def of_found(found: Found, rate_bps: int, goodput: float = 1.0, delay_s: float = 0.0) -> Network:
    """Return the network that TopologyFinder found, with links of this rate and delay, and groups' rings."""
    return Network(found.network(rate_bps, delay_s), found.orders, goodput)


class _Parallel:
    """A router over patch panels that uses all circuits which join two servers directly."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._direct: dict[tuple[int, int], list[Path]] = {}

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        if not self._direct:
            for into, out in topology.circuits.items():
                self._direct.setdefault((topology.tail(into), topology.head(out)), []).append(Path((into, out)))
        direct = self._direct.get((src, dst), [])
        if len(direct) < 2:
            return self._router(topology, src, dst)
        return tuple(replace(path, weight=1 / len(direct)) for path in direct)
