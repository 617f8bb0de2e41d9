"""What is left of each directed link's rate over time, and what transfers take of it (MLfabric, section 5.1.1, fig. 4).

A transfer uses all that the bottleneck of its path has left, from the moment on at which it can leave. To reserve it
takes that away from each link of the path. So two transfers never overlap on their bottleneck (section 3.1.1).

Rates are whole bit/s. Sums and differences of them are exact, so a link that is used up has 0 left, and no remainder of
a rounding that a later transfer would begin in. Moments closer than :data:`TICK_S` are one moment for the same reason.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.kinds.fabric.model import Rates, Transfer

TICK_S = 1e-9
"""Moments that are closer than this are one moment."""

Flow = list[tuple[float, float]]
"""(from when on in seconds, bit/s), until the transfer ends."""


class Residual(NamedTuple):
    """What a link has left: ``rates_bps[i]`` from ``times_s[i]`` to ``times_s[i + 1]``; the last moment is infinity."""

    times_s: list[float]
    rates_bps: list[float]


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be sent: as :class:`~workloads.kinds.fabric.model.Transfer`, and ``ready_s``, when it can leave."""

    source: int
    target: int
    size_bytes: float
    ready_s: float = 0.0
    members: tuple[int, ...] = ()
    shard: int = 0
    is_replica: bool = False


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

    def copy(self) -> Network:
        """Another one in the same state; what is reserved in one is not in the other."""
        other = Network.__new__(Network)
        other._topology, other._paths, other._residuals = self._topology, self._paths, self._residuals.copy()
        return other

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """The directed links from node to node; none from a node to itself.

        Raises:
            SchemeError: there are several paths, and what a transfer takes of each is chance.
            TopologyError: there is none.
        """
        known = self._paths.get((source, target))
        if known is None:
            known = self._paths[source, target] = _only_path(self._topology, source, target)
        return known

    def residual(self, link: int) -> Residual:
        """What a directed link has left; not to be changed."""
        return self._residuals[link]

    def end_s(self, load: Load) -> float:
        """When the load is there if it is sent now: t_en of fig. 4(b); infinity where rates stay 0 before it is."""
        return self._flow(load)[1]

    def reserve(self, load: Load) -> Transfer:
        """Send the load: its transfer takes all that the bottleneck has left (fig. 4(c)).

        A load from a node to itself is there at once. One that never arrives takes what there is and ends at infinity.
        """
        flow, end_s = self._flow(load)
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

    def release(self, transfer: Transfer) -> None:
        """Give back what :meth:`reserve` took for a transfer."""
        back = [(from_s, -rate) for from_s, rate in transfer.rates]
        for link in self.path(transfer.source, transfer.target) if back else ():
            self._residuals[link] = less(self._residuals[link], back, transfer.end_s)

    def take(self, transfer: Transfer) -> None:
        """Reserve again what :meth:`reserve` said, for instance of a transfer that has begun.

        Rates may have changed since; a link has 0 left where the transfer was promised more than it has now.
        """
        for link in self.path(transfer.source, transfer.target) if transfer.rates else ():
            left = less(self._residuals[link], transfer.rates, transfer.end_s)
            if min(left.rates_bps) < 0:
                left = _merged(left.times_s, [max(0.0, rate) for rate in left.rates_bps])
            self._residuals[link] = left

    def _flow(self, load: Load) -> tuple[Flow, float]:
        path = self.path(load.source, load.target)
        if not path:
            return [], load.ready_s
        return flow([self._residuals[link] for link in path], 8 * load.size_bytes, load.ready_s)


def flow(residuals: Sequence[Residual], bits: float, ready_s: float) -> tuple[Flow, float]:
    """What a transfer takes of its path, and when it ends; infinity where rates stay 0 before it does.

    The first step is at the first rate above 0. A step shorter than a tick carries nothing, and an end that is within a
    tick of a change of rates is at that change.
    """
    steps: Flow = []
    if ready_s == math.inf:
        return steps, math.inf
    last_rate = 0.0
    now_s = ready_s
    at = [bisect_right(one.times_s, ready_s) - 1 for one in residuals]
    while True:
        rate = min([one.rates_bps[i] for one, i in zip(residuals, at, strict=True)])
        until_s = min([one.times_s[i + 1] for one, i in zip(residuals, at, strict=True)])
        if until_s - now_s <= TICK_S:
            rate = 0.0
        if rate != last_rate:
            steps.append((now_s, rate))
            last_rate = rate
        if rate:
            end_s = now_s + bits / rate
            if end_s <= until_s + TICK_S:
                return steps, until_s if end_s > until_s - TICK_S else end_s
            bits -= rate * (until_s - now_s)
        if until_s == math.inf:
            return steps, math.inf
        at = [i + (one.times_s[i + 1] == until_s) for one, i in zip(residuals, at, strict=True)]
        now_s = until_s


def less(residual: Residual, steps: Sequence[tuple[float, float]], end_s: float) -> Residual:
    """What is left when a transfer with these steps takes its part, until it ends."""
    times, rates = residual
    at = bisect_right(times, steps[0][0]) - 1
    new_times, new_rates = times[: at + 1], rates[: at + 1]
    for number, (from_s, rate) in enumerate(steps):
        until_s = steps[number + 1][0] if number + 1 < len(steps) else end_s
        new_times.append(from_s)
        new_rates.append(rates[at] - rate)
        while times[at + 1] < until_s:
            at += 1
            new_times.append(times[at])
            new_rates.append(rates[at] - rate)
        if times[at + 1] == until_s < math.inf:
            at += 1
    if end_s < math.inf:
        new_times.append(end_s)
        new_rates.append(rates[at])
    return _merged([*new_times, *times[at + 1 :]], [*new_rates, *rates[at + 1 :]])


def _merged(times: list[float], rates: list[float]) -> Residual:
    """Without steps that take no time, and without changes from a rate to itself."""
    new_times: list[float] = []
    new_rates: list[float] = []
    for i, rate in enumerate(rates):
        if times[i] == times[i + 1] or (new_rates and new_rates[-1] == rate):
            continue
        new_times.append(times[i])
        new_rates.append(rate)
    new_times.append(math.inf)
    return Residual(new_times, new_rates)


def _residuals(topology: Topology, rates: Mapping[int, Iterable[tuple[float, float]]]) -> list[Residual]:
    made = [Residual([0.0, math.inf], [float(link.rate_bps)]) for link in topology.links for _ in range(2)]
    for link, steps in rates.items():
        nominal = float(topology.links[link // 2].rate_bps)
        known = [(0.0, nominal), *((from_s, float(math.floor(rate))) for from_s, rate in sorted(steps))]
        made[link] = _merged([from_s for from_s, _ in known] + [math.inf], [rate for _, rate in known])
    return made


def _only_path(topology: Topology, source: int, target: int) -> tuple[int, ...]:
    paths = topology.paths(source, target)
    if len(paths) > 1:
        names = topology.nodes
        raise SchemeError(
            f"{topology.expression} has {len(paths)} paths from {names[source].name} to {names[target].name} (ecmp), "
            "and the scheduler has to know which links a transfer takes",
            fix="use a topology with one path between two hosts: leave out ecmp",
        )
    return paths[0].links
