"""TopologyFinder (TopoOpt, section 3.3, Algorithm 1): from a job's transfers to circuits and routes.

1. Ports are divided between AllReduce and MP by their bytes (:mod:`.selection`).
2. Each AllReduce group gets rings (:mod:`.rings`, :mod:`.selection`), and each ring gets panels
   (:mod:`testbed.topologies.circuits`).
3. Each panel's dark ports get a matching for MP transfers (:mod:`.mp`).
4. AllReduce goes from neighbour to neighbour, MP transfers by shortest paths (:mod:`.mp`), all else by coin
   change over the rings over all servers (:mod:`.rings`).

docs/decisions/topoopt-finder.md says what the paper leaves open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from testbed.topologies.call import Call, Value
from testbed.topologies.circuits import lay
from testbed.topologies.model import Topology
from testbed.topologies.panels import Matching
from testbed.topologies.patch_panel import patch_panel
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.mp import Circuits, MpRoute, mp_circuits, mp_routes
from testbed.topologies.topoopt.rings import coins_of, first_coins, order
from testbed.topologies.topoopt.selection import Select, allot, allreduce_rings, allreduce_share, select


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of a group, by stride; ``group`` is None for a ring over all servers that only keeps them joined."""

    group: int | None
    members: tuple[int, ...]
    stride: int

    @property
    def order(self) -> tuple[int, ...]:
        """The servers in the order in which the ring passes them."""
        return order(self.members, self.stride)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of neighbours; two servers are one pair."""
        passed = self.order
        return list(pairwise(passed)) + ([(passed[-1], passed[0])] if len(passed) > 2 else [])


@dataclass(frozen=True, eq=False)
class Found:
    """Circuits and routes for a job.

    Attributes:
        panels: by interface, all circuits.
        mp_circuits: those that are there for MP transfers, by panel, from the first panel after those of the rings over
            all servers.
        mp_routes: the largest transfer first; up to ``paths`` of each.
    """

    job: Demand
    degree: int
    select: Select
    rings: tuple[Ring, ...]
    panels: tuple[Matching, ...]
    mp_circuits: tuple[Matching, ...]
    mp_routes: tuple[MpRoute, ...]
    paths: int = 1

    @property
    def strides(self) -> list[int]:
        """Strides of the rings over all servers."""
        return [ring.stride for ring in self.rings if len(ring.members) == self.job.servers]

    @property
    def dark_ports(self) -> int:
        """Number of interfaces at which no circuit ends."""
        return self.job.servers * self.degree - 2 * sum(map(len, self.panels))

    @property
    def topology(self) -> str:
        """The expression of the network: ``patch_panel(servers=16,degree=6,rings=[1,3,7],routing=coin_change)``.

        Its ``routes`` are those that coin change would not take. With several paths a pair they are all routes of pairs
        that no circuit joins, each with the NIC at which it ends.
        """
        return str(self._call(self.routes))

    @property
    def without_routes(self) -> str:
        """The expression of the same circuits, with coin change for all traffic."""
        return str(self._call(()))

    def network(self, rate_bps: int, delay_s: float = 0.0) -> Topology:
        """Build the network of :attr:`topology`, however long that expression is, with links of this rate and delay."""
        arguments: dict[str, Any] = self._call(self.routes).arguments
        return patch_panel(rate_bps, delay_s, **arguments)

    def _call(self, routes: Sequence[str]) -> Call:
        rings: list[Value] = list(self.strides)
        rings += [ring.order for ring in self.rings if len(ring.members) < self.job.servers]
        arguments: dict[str, Value] = {"servers": self.job.servers, "degree": self.degree, "rings": tuple(rings)}
        circuits = [tuple(f"{a}-{b}" for a, b in panel) for panel in self.mp_circuits]
        while circuits and not circuits[-1]:
            circuits.pop()
        given: dict[str, Value] = {"circuits": tuple(circuits), "routes": tuple(routes)}
        arguments |= {name: value for name, value in given.items() if value}
        return Call("patch_panel", arguments | {"routing": "coin_change"})

    @property
    def scheme(self) -> str | None:
        """The scheme ``multi_ring``, both directions of each ring, if the only group is all servers; else None."""
        if len(self.job.groups) != 1 or len(self.job.groups[0].members) < self.job.servers:
            return None
        strides = [p for stride in self.strides for p in dict.fromkeys((stride, self.job.servers - stride))]
        return str(Call("multi_ring", {"strides": tuple(strides)}))

    @property
    def orders(self) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        """Both directions of each ring of a group, by the group's members."""
        found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for ring in self.rings:
            if ring.group is not None:
                found.setdefault(ring.members, []).extend((ring.order, ring.order[::-1]))
        return found

    @property
    def routes(self) -> list[str]:
        """The routes that must be given beside ``routing=coin_change``, so that MP transfers take theirs."""
        if self.paths == 1:
            return [_word(path) for path in self._by_destination()]
        return [f"{_word(route.path)}@{route.panel}" for route in self.mp_routes if route.hops > 1]

    def _by_destination(self) -> list[tuple[int, ...]]:
        towards: dict[int, dict[int, int]] = {}
        for route in self.mp_routes:
            towards.setdefault(route.path[-1], {}).update(pairwise(route.path))
        found: list[tuple[int, ...]] = []
        for destination, hops in sorted(towards.items()):
            others = [here for here, there in sorted(hops.items()) if self._default(here, destination) != there]
            paths = [_follow(hops, here, destination) for here in others]
            inner = {server for path in paths for server in path[1:]}
            found += [path for path in paths if path[0] not in inner]
        return found

    def _default(self, here: int, destination: int) -> int:
        """Return the next server if no route is given, as ``routing`` of a patch panel says."""
        if destination in self._joined[here]:
            return destination
        return (here + self._first_coins[(destination - here) % self.job.servers]) % self.job.servers

    @cached_property
    def _joined(self) -> list[set[int]]:
        joined: list[set[int]] = [set() for _ in range(self.job.servers)]
        for a, b in (pair for panel in self.panels for pair in panel):
            joined[a].add(b)
            joined[b].add(a)
        return joined

    @cached_property
    def _first_coins(self) -> list[int]:
        coins = coins_of(self.job.servers, (pair for panel in self.panels for pair in panel))
        return first_coins(self.job.servers, coins)


def _word(path: Sequence[int]) -> str:
    return "-".join(map(str, path))


def _follow(hops: Mapping[int, int], here: int, destination: int) -> tuple[int, ...]:
    path = [here]
    while path[-1] != destination:
        path.append(hops[path[-1]])
    return tuple(path)


def figures(found: Found) -> dict[str, Any]:
    """Return all figures, ready for JSON. Bytes are of one iteration.

    ``mean_hops`` and ``diameter`` are over all pairs of servers, by shortest ways over circuits; ``mp_hops`` are those
    of the routes of MP transfers: ``mean`` is weighted by bytes, ``transfers`` counts them by hops. ``bandwidth_tax``
    is what crosses circuits over what is asked for (section 5: "bandwidth tax").
    """
    mean, diameter = hops(found.job.servers, found.panels)
    job = found.job
    return {
        "servers": job.servers,
        "degree": found.degree,
        "select": found.select,
        "allreduce_bytes": job.allreduce_total_bytes,
        "mp_bytes": job.mp_total_bytes,
        "allreduce_share": allreduce_share(job),
        "rings": [
            {"group": ring.group, "members": len(ring.members), "stride": ring.stride, "order": list(ring.order)}
            for ring in found.rings
        ],
        "groups_without_rings": groups_without_rings(found),
        "mp_circuits": [[list(pair) for pair in panel] for panel in found.mp_circuits],
        "dark_ports": found.dark_ports,
        "mean_hops": mean,
        "diameter": diameter,
        "mp_hops": mp_hops(found),
        "bandwidth_tax": bandwidth_tax(found),
        "topology": found.topology,
        "scheme": found.scheme,
    }


def groups_without_rings(found: Found) -> list[int]:
    """List the groups whose AllReduce has to go over the circuits of others."""
    served = {ring.group for ring in found.rings}
    return [number for number in range(len(found.job.groups)) if number not in served]


def hops(servers: int, panels: Sequence[Matching]) -> tuple[float, int]:
    """Return the mean and greatest number of circuits between two servers."""
    circuits = Circuits(servers, panels, {})
    distances = [circuits.distances(server) for server in range(servers)]
    return sum(map(sum, distances)) / (servers * (servers - 1)), max(map(max, distances))


def mp_hops(found: Found) -> dict[str, Any]:
    """Return the mean, weighted by bytes and None without MP transfers, and the number of routes of each length."""
    total = found.job.mp_total_bytes
    crossed = sum(route.transfer_bytes * route.hops for route in found.mp_routes)
    transfers = Counter(route.hops for route in found.mp_routes)
    return {"mean": crossed / total if total else None, "transfers": dict(sorted(transfers.items()))}


def bandwidth_tax(found: Found) -> float:
    """Return the bytes on all circuits over those asked for; members of a group with rings are one circuit apart."""
    job = found.job
    crossed = sum(route.transfer_bytes * route.hops for route in found.mp_routes)
    without = groups_without_rings(found)
    circuits = Circuits(job.servers, found.panels, {})
    for number, group in enumerate(job.groups):
        if number not in without:
            crossed += group.total_bytes
            continue
        following = (*group.members[1:], group.members[0])
        for here, there in zip(group.members, following, strict=True):
            crossed += group.transfer_bytes * circuits.distances(there)[here]
    return crossed / (job.allreduce_total_bytes + job.mp_total_bytes)


def find(job: Demand, degree: int, how: Select = "geometric", paths: int = 1) -> Found:
    """Find circuits and routes for a job whose servers have ``degree`` interfaces each.

    Args:
        how: the way to choose among a group's rings.
        paths: routes of each MP transfer, at different NICs of its destination.

    Raises:
        TopologyError: so many interfaces cannot join so many servers.
    """
    rings = _rings(job, degree, how)
    whole = 2 * sum(len(ring.members) == job.servers for ring in rings)
    laid = lay(job.servers, [ring.order for ring in rings])
    panels = [*laid, *(() for _ in range(degree - len(laid)))]
    dark = [set(range(job.servers)).difference(*panel) for panel in panels[whole:]]
    joined = Counter(pair for panel in laid for pair in panel)
    extra = mp_circuits(job.mp_bytes, joined, dark)
    panels[whole:] = [tuple(sorted(on + more)) for on, more in zip(panels[whole:], extra, strict=True)]
    parts = Counter(ring.group for ring in rings)
    load: Counter[tuple[int, int]] = Counter()
    for ring in rings:
        if ring.group is None:
            continue
        ways = 2 if len(ring.members) > 2 else 1
        each = job.groups[ring.group].transfer_bytes // (ways * parts[ring.group])
        for a, b in ring.pairs:
            load[a, b] += each
            load[b, a] += each
    circuits = Circuits(job.servers, panels, load)
    return Found(
        job=job,
        degree=degree,
        select=how,
        rings=tuple(rings),
        panels=tuple(panels),
        mp_circuits=tuple(extra),
        mp_routes=tuple(mp_routes(circuits, job.pairs(), paths)),
        paths=paths,
    )


def _rings(job: Demand, degree: int, how: Select) -> list[Ring]:
    """Choose rings over all servers, then the others, groups with most bytes first. A ring whose circuits find no
    panels is left out: smaller rings of odd length need three, and have two ports each."""
    found: list[Ring] = []
    parts = allot(job, allreduce_rings(job, degree))
    for part in sorted(parts, key=lambda part: len(part.members) < job.servers):
        strides = [1] if part.group is None else select(how, part.members, part.rings, job.mp_bytes)
        for stride in strides:
            ring = Ring(part.group, part.members, stride)
            if len(lay(job.servers, [one.order for one in (*found, ring)])) <= degree:
                found.append(ring)
    return found
