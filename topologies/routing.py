"""The kernel routes that make traffic take a topology's paths.

The kernel forwards by destination address alone. So a path is turned into one route per node that it passes, and a
router whose next hop at a node depends on more than (node, destination) is refused: it could not be installed.
Neighbours on one subnet reach each other without a route.

Connections from several NICs of a server may lead to one address. Their route has a hop for each of these NICs, and
their sockets are bound to the NIC that each is to leave by (:attr:`testbed.workloads.job.Peer.bound`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import Addresses, plan
from testbed.topologies.model import Path, Topology

Hop = tuple[int, str | None]
"""The port that traffic leaves by, and the address of the next node; None where the destination is on that subnet."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route at ``node``: traffic for ``destination_address`` takes one of ``hops``, each with the same weight."""

    node: int
    destination_address: str
    hops: tuple[Hop, ...]


def routes(
    topology: Topology,
    pairs: Iterable[tuple[int, int]],
    *,
    addresses: Addresses | None = None,
    every_address: bool = False,
    crossed: Collection[int] = (),
) -> list[Route]:
    """List the routes that traffic between each pair of hosts needs, in both directions, beyond connected subnets.

    Args:
        pairs: hosts that talk to each other; order and repetition do not matter.
        addresses: the topology's plan, if it is at hand.
        every_address: reach the other NICs of each destination by the same path, too. Connections as
            :meth:`Addresses.flow` names them need only the NIC at which the path arrives; ``ping NAME`` needs any.
        crossed: bridges that are to forward by address as well, and get routes to what is beyond their own ports.

    Raises:
        TopologyError: a pair has no route, the paths of two pairs contradict each other, or the weights of a pair's
            paths are not what an even split at each node gives.
    """
    table = _Table(topology, addresses or plan(topology), crossed)
    for low, high in {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}:
        table.add(low, high, every_address)
        table.add(high, low, every_address)
    return table.routes()


class _Table:
    """Next hops by node and destination address, gathered path by path."""

    def __init__(self, topology: Topology, addresses: Addresses, crossed: Collection[int]) -> None:
        self.topology = topology
        self.addresses = addresses
        self.crossed = crossed
        self.hops: dict[tuple[int, str], set[Hop]] = {}

    def add(self, src: int, dst: int, every_address: bool) -> None:
        if every_address:
            for port in range(len(self.topology.ports[dst])):
                self._add(src, dst, self.topology.paths_to(src, dst, port), self.addresses.of(dst, port))
            return
        by_address: dict[str, list[Path]] = {}
        for paths in self.topology.connections(src, dst):
            nic = self.topology.port_at_tail(paths[0].links[-1] ^ 1)
            by_address.setdefault(self.addresses.of(dst, nic), []).extend(paths)
        for address, leading in by_address.items():
            if len(leading) > 1 or not self._is_on_link(leading[0]):
                self._add(src, dst, leading, address)

    def _add(self, src: int, dst: int, paths: Sequence[Path], address: str) -> None:
        """Add the next hops by which traffic of ``src`` to this address of ``dst`` takes these paths."""
        next_hops: dict[int, set[Hop]] = {}
        deciding: list[list[int]] = []
        for path in paths:
            steps = list(self._steps(path))
            deciding.append([node for node, _ in steps])
            for node, hop in steps:
                next_hops.setdefault(node, set()).add(hop)
        shares = [1 / math.prod(len(next_hops[node]) for node in nodes) for nodes in deciding]
        self._check_weights(src, dst, paths, shares)
        for node, hops in next_hops.items():
            towards: set[Hop] = {(port, None if via == address else via) for port, via in hops}
            if self.hops.setdefault((node, address), towards) != towards:
                names = self.topology.nodes
                raise TopologyError(
                    f"{self.topology.expression}: at {names[node].name} the way to {names[dst].name} depends on where "
                    "traffic comes from",
                    fix="let the router choose each next hop by node and destination only",
                )

    def routes(self) -> list[Route]:
        """List the routes, without those that a connected subnet already gives."""
        return [
            Route(node, address, tuple(sorted(hops, key=lambda hop: (hop[0], hop[1] or ""))))
            for (node, address), hops in sorted(self.hops.items())
            if len(hops) > 1 or all(via is not None for _, via in hops)
        ]

    def _is_on_link(self, path: Path) -> bool:
        links = path.links
        first_stop = self.topology.head(links[0])
        return len(links) == 1 or (len(links) == 2 and self.addresses.mode.get(first_stop) == "bridge")

    def _steps(self, path: Path) -> Iterator[tuple[int, Hop]]:
        """Yield each node of the path that decides, its port and the next such node's address there. Bridges do not
        decide, unless they are crossed."""
        topology = self.topology
        port: int | None = None
        for directed in path.links:
            if port is None:
                node, port = topology.tail(directed), topology.port_at_tail(directed)
            head = topology.head(directed)
            if self.addresses.mode.get(head) != "bridge":
                via = self.addresses.of(head, topology.port_at_tail(directed ^ 1))
                yield node, (port, via)
                if topology.tail(directed) in self.crossed:
                    yield topology.tail(directed), (topology.port_at_tail(directed), via)
                port = None

    def _check_weights(self, src: int, dst: int, paths: Sequence[Path], shares: list[float]) -> None:
        """Check that shares are even: the kernel gives each next hop the same share of a connection, and theory must
        count on nothing else."""
        whole = sum(path.weight for path in paths)
        for path, share in zip(paths, shares, strict=True):
            if not math.isclose(share * whole, path.weight):
                names = self.topology.nodes
                raise TopologyError(
                    f"{self.topology.expression}: a path from {names[src].name} to {names[dst].name} has weight "
                    f"{path.weight:g}, but would carry {share * whole:g}",
                    fix="split traffic evenly at each node, over hops that some path takes",
                )
