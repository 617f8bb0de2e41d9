"""Each directed link's free rate over time, and the part of it that transfers take (MLfabric, section 5.1.1, fig. 4).

A transfer uses all that the bottleneck of its path has left, from the moment on at which it can leave. To reserve it
takes that away from each link of the path. So two transfers never overlap on their bottleneck (section 3.1.1).

Rates are whole bit/s. Sums and differences of them are exact, so a link that is used up has 0 left, and no remainder of
a rounding that a later transfer would begin in.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.model import Rates, Transfer, Update
from testbed.workloads.kinds.fabric.scheduling.residual import Flow, Residual, flow, less, merged


@dataclass(frozen=True, slots=True)
class Load:
    """Data to be sent: as :class:`.model.Transfer`, and ``ready_s``, when it can leave."""

    source: int
    target: int
    size_bytes: float
    ready_s: float = 0.0
    members: tuple[int, ...] = ()
    shard: int = 0
    is_replica: bool = False

    @classmethod
    def again(cls, transfer: Transfer, ready_s: float) -> Load:
        """Return the data of a transfer, to be sent from another moment on."""
        one = transfer
        return cls(one.source, one.target, one.size_bytes, ready_s, one.members, one.shard, one.is_replica)


def loads(update: Update, targets: Sequence[int], is_replica: bool = False) -> list[Load]:
    """Return an update's components, one for each target, which are sent together (section 10.2); where two meet, that
    of the first target goes first."""
    return [
        Load(update.worker, target, size_bytes, update.ready_s, (update.id,), shard, is_replica)
        for shard, (target, size_bytes) in enumerate(zip(targets, update.sizes_bytes, strict=True))
    ]


class Leaf(NamedTuple):
    """A node with one link: the directed links from it and to it, and the node at their other end.

    No traffic but its own passes these links. Between two leaves of one switch they are the path.
    """

    out: int
    into: int
    switch: int


class Outlet(NamedTuple):
    """The way of a transfer from a leaf to its switch: at this rate at most, from this moment on."""

    most_bps: float
    from_s: float
    switch: int


class Network:
    """The residual rates of a topology's directed links.

    Args:
        topology: gives the links, their rates, and the path from node to node.
        rates: of links whose rate is not the topology's; a link has the topology's before its first moment.
    """

    def __init__(self, topology: Topology, rates: Rates | None = None) -> None:
        self._topology = topology
        self._paths: dict[tuple[int, int], tuple[int, ...]] = {}
        self._residuals = _residuals(topology, rates or {})
        self._leaves = _leaves(topology)
        self._is_turned = False

    def copy(self) -> Network:
        """Copy the network in its state; reservations in one are not in the other."""
        other = Network.__new__(Network)
        other._topology, other._paths, other._leaves = self._topology, self._paths, self._leaves
        other._residuals, other._is_turned = self._residuals.copy(), self._is_turned
        return other

    def turned(self) -> Network:
        """Copy the network in its state, but with traffic from node a to b on the path from b to a."""
        other = self.copy()
        other._is_turned, other._paths = not self._is_turned, {}
        other._leaves = [leaf and Leaf(leaf.into, leaf.out, leaf.switch) for leaf in self._leaves]
        return other

    def leaf(self, node: int) -> Leaf | None:
        """Return the links of a node that has only one; None for any other node."""
        return self._leaves[node]

    def may_stall(self) -> bool:
        """Whether some link has no rate from some moment on, so that transfers may never end."""
        return not all(residual.rates_bps[-1] for residual in self._residuals)

    def outlet(self, node: int, ready_s: float) -> Outlet | None:
        """Return how a transfer leaves a node; None where its limits are more than one rate from some moment on."""
        leaf = self._leaves[node]
        if leaf is None:
            return None
        times_s, rates_bps = self._residuals[leaf.out]
        at = bisect_right(times_s, ready_s) - 1
        from_s = ready_s
        while at + 1 < len(rates_bps) and not rates_bps[at]:
            at += 1
            from_s = times_s[at]
        return Outlet(rates_bps[at], from_s, leaf.switch) if at + 1 == len(rates_bps) else None

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """Return the directed links from node to node; none from a node to itself.

        Raises:
            SchemeError: there are several paths, and what a transfer takes of each is chance.
            TopologyError: there is none.
        """
        known = self._paths.get((source, target))
        if known is None:
            known = self._paths[source, target] = self._found(source, target)
        return known

    def _found(self, source: int, target: int) -> tuple[int, ...]:
        a, b = self._leaves[source], self._leaves[target]
        if a and b and a.switch == b.switch and source != target:
            return a.out, b.into
        return only_path(self._topology, *((target, source) if self._is_turned else (source, target)))

    def residual(self, link: int) -> Residual:
        """Return the free rate of a directed link; not to be changed."""
        return self._residuals[link]

    def residuals(self) -> list[Residual]:
        """Return the free rates of all directed links; the list is a copy."""
        return self._residuals.copy()

    def end_s(self, load: Load) -> float:
        """Return when the load is there if it is sent now: t_en of fig. 4(b); infinity where rates stay 0 before it
        is."""
        return self._flow(load, {})[1]

    def last_s(self, loads: Sequence[Load]) -> float:
        """Return when all of some loads are there if they are sent now, one after another (eq. 18)."""
        taken: dict[int, Residual] = {}
        last_s = -math.inf
        paths = [self.path(load.source, load.target) for load in loads]
        for number, (load, path) in enumerate(zip(loads, paths, strict=True)):
            steps, end_s = self._flow(load, taken)
            last_s = max(last_s, end_s)
            shared = [link for link in path if any(link in later for later in paths[number + 1 :])]
            for link in shared if steps else ():
                taken[link] = less(taken.get(link, self._residuals[link]), steps, end_s)
        return last_s

    def reserve(self, load: Load) -> Transfer:
        """Send the load: its transfer takes all that the bottleneck has left (fig. 4(c)).

        A load from a node to itself is there at once. One that never arrives takes what there is and ends at infinity.
        """
        flow, end_s = self._flow(load, {})
        for link in self.path(load.source, load.target) if flow else ():
            self._residuals[link] = less(self._residuals[link], flow, end_s)
        return Transfer(
            load.source,
            load.target,
            flow[0][0] if flow else end_s,
            end_s,
            load.size_bytes,
            load.members,
            load.shard,
            tuple(flow),
            load.is_replica,
        )

    def reserve_all(self, loads: Iterable[Load]) -> list[Transfer]:
        """Send some loads, one after another."""
        return [self.reserve(load) for load in loads]

    def reserve_whole(self, load: Load) -> Transfer:
        """Send the load as :meth:`reserve` does, but begin the transfer once nothing interrupts it any more: a sender
        that has begun goes on, whatever was reserved for others."""
        made = self.reserve(load)
        while (resumed_s := made.resumed_s) is not None and made.end_s < math.inf:
            self.release(made)
            load = replace(load, ready_s=resumed_s)
            made = self.reserve(load)
        return made

    def release(self, transfer: Transfer) -> None:
        """Give back what :meth:`reserve` took for a transfer."""
        back = [(from_s, -rate) for from_s, rate in transfer.rates]
        for link in self.path(transfer.source, transfer.target) if back else ():
            self._residuals[link] = less(self._residuals[link], back, transfer.end_s)

    def take(self, transfer: Transfer) -> None:
        """Reserve again what :meth:`reserve` returned, for instance for a transfer that has begun.

        Rates may have changed since; a link has 0 left where the transfer was promised more than it has now.
        """
        for link in self.path(transfer.source, transfer.target) if transfer.rates else ():
            left = less(self._residuals[link], transfer.rates, transfer.end_s)
            if min(left.rates_bps) < 0:
                left = merged((at, max(0.0, rate)) for at, rate in zip(left.times_s, left.rates_bps, strict=False))
            self._residuals[link] = left

    def _flow(self, load: Load, taken: Mapping[int, Residual]) -> tuple[Flow, float]:
        path = self.path(load.source, load.target)
        if not path:
            return [], load.ready_s
        return flow([taken.get(link, self._residuals[link]) for link in path], 8 * load.size_bytes, load.ready_s)


def _residuals(topology: Topology, rates: Mapping[int, Iterable[tuple[float, float]]]) -> list[Residual]:
    made = [Residual([0.0, math.inf], [float(link.rate_bps)]) for link in topology.links for _ in range(2)]
    for link, steps in rates.items():
        nominal = float(topology.links[link // 2].rate_bps)
        known = [(0.0, nominal), *((from_s, float(math.floor(rate))) for from_s, rate in sorted(steps))]
        made[link] = merged(known)
    return made


def _leaves(topology: Topology) -> list[Leaf | None]:
    ports = topology.ports
    return [Leaf(out[0], out[0] ^ 1, topology.head(out[0])) if len(out) == 1 else None for out in ports]


PARALLEL = "parallel circuits or routes", "give each ring once, and no routes to interfaces"
BY_NIC = "every_nic", "leave out every_nic"


def only_path(topology: Topology, source: int, target: int) -> tuple[int, ...]:
    """Return the directed links from one node to another.

    Raises:
        SchemeError: there are several paths.
    """
    paths = topology.paths(source, target)
    if len(paths) > 1:
        names, circuits = topology.nodes, len(topology.connections(source, target))
        several = PARALLEL if topology.panels else BY_NIC
        why, fix = several if circuits > 1 else ("ecmp", "leave out ecmp")
        raise SchemeError(
            f"{topology.expression} has {len(paths)} paths from {names[source].name} to {names[target].name} ({why}), "
            "and the scheduler has to know which links a transfer takes",
            fix=f"use a topology with one path between two hosts: {fix}",
        )
    return paths[0].links
