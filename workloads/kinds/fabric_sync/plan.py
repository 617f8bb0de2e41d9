"""The plan of MLfabric-S on a topology, and the cost of a synchronisation as it ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.kinds.asynchronous.plan import UpdatesCost
from testbed.workloads.kinds.base import Floats
from testbed.workloads.kinds.fabric import plan as plans
from testbed.workloads.kinds.fabric.plan import Fabric, Sent
from testbed.workloads.sync.cost import IDEAL, Shaper


@dataclass(frozen=True)
class Synchronous(Fabric):
    """A plan whose server, or each iteration's root, makes sums, has no weights, and gives each sum to all workers."""

    kind: ClassVar[str] = "fabric_sync"


Nic = tuple[int, float]
"""Links of a node: how many it has, and their mean rate (bit/s)."""


@dataclass(frozen=True, eq=False)
class SumsCost(UpdatesCost):
    """Cost of an average synchronisation as it ran. Each synchronisation goes other ways, so bytes of links bound none
    of them. Each is bounded by how many gradients can get to the server in a time, and by how many workers can get the
    sum.

    Let a gradient take g on the server's link. In a time t, t/g gradients or sums get there. A gradient that does not
    come by itself is in a sum; the aggregator had it before it sent the sum, which took g. So in what is left of t its
    own link has brought it its members, one after the other; its own gradient needs no link. If d gradients come by
    themselves, and aggregators that send sums of n_1, n_2, .. members of others each, then d + n_1 + n_2 + .. and
    one more for each sum are there, and d and one for each sum are at most t/g. So at most t/g + n_1 + n_2 + .. are
    there: the server's link counts 1 after g, 2g, .., and an aggregator's 1 after g more than its link takes for 1, 2,
    .. gradients, and the links of as many other workers for one. The least time for m gradients is the m-th of all
    these moments. The other way it is the same: a distributor passes the sum on once it has it. Gradients do not leave
    before they are ready, and the sum not before the server has all of them. Whichever way they take, a gradient takes
    its worker's link, and a sum each worker's.

    Attributes:
        gradient_bytes: of each gradient, and of the sum.
        server: the server's links.
        workers: those of each worker, by node.
        aggregators: the workers that may sum gradients, and pass the sum on.
        window_s: nothing leaves for so long after the first gradient is ready.
    """

    moved: ClassVar[bool] = True
    gradient_bytes: float
    server: Nic
    workers: Mapping[int, Nic]
    aggregators: tuple[int, ...]
    window_s: float

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Return a lower bound of GST (s), whatever has left before the last gradient is ready: the time of that one to
        the server, and of the sum back to all workers."""
        return min(self._own_s(node, shaper) for node in self.workers) + self._back_s(shaper)

    def done_s(self, ready_s: Mapping[int, float], shaper: Shaper) -> float:
        """Return the first moment at which all workers can have the sum, given when each worker (by node) has its
        gradient."""
        return self._gathered_s(ready_s, shaper) + self._back_s(shaper)

    def least_jct_s(self, pace_s: Floats, shaper: Shaper) -> float:
        """Return the least time (s) of iterations that follow each other; ``pace_s`` is float64[workers, iterations].

        Workers begin an iteration as they get the sum before it. The last m of N get it when the first N - m + 1 of
        them may have it, so their gradients leave so much later, and the least pace. And a worker alone gets the sum,
        computes, and sends its gradient. And all gradients leave after the window that begins with the first one. And
        the last worker that gets the sum computes, and what :meth:`bound_s` has follows.
        """
        world = len(self.workers)
        moments_s = self._moments_s(world, shaper)
        staggered_s = max(there + back for there, back in zip(moments_s, reversed(moments_s), strict=True))
        alone_s = np.array([2 * self._own_s(node, shaper) for node in self.workers])
        together_s = max(staggered_s, moments_s[0] + self.window_s + moments_s[-1], self.bound_s(shaper))
        later_s = [max(float(each.min()) + together_s, float((each + alone_s).max())) for each in pace_s.T[1:]]
        first_s = self._gathered_s(dict(zip(self.workers, pace_s[:, 0].tolist(), strict=True)), shaper)
        return first_s + sum(later_s) + self._back_s(shaper)

    def _gathered_s(self, ready_s: Mapping[int, float], shaper: Shaper) -> float:
        """Return when the server has all gradients: from any moment on, those that were not ready before have still to
        get there."""
        first_s = min(ready_s.values()) + self.window_s
        leaves_s = {node: max(at_s, first_s) for node, at_s in ready_s.items()}
        late = sorted(leaves_s, key=lambda node: leaves_s[node], reverse=True)
        moments_s = self._moments_s(len(late), shaper)
        one_s = (leaves_s[node] + self._own_s(node, shaper) for node in late)
        return max(*one_s, *(leaves_s[node] + least_s for node, least_s in zip(late, moments_s, strict=True)))

    def _back_s(self, shaper: Shaper) -> float:
        """Return the time (s) from then on until all workers have the sum."""
        return max(self._moments_s(len(self.workers), shaper)[-1], *(self._own_s(one, shaper) for one in self.workers))

    def _moments_s(self, count: int, shaper: Shaper) -> list[float]:
        """Compute the least times in which 1, 2, .. gradients get to the server, or so many workers get the sum."""
        counts = range(1, count + 1)
        moments_s = [self._link_s(self.server, one, shaper) for one in counts]
        for node in self.aggregators:
            nic, sum_s = self.workers[node], self._own_s(node, shaper)
            others_s = sorted(self._link_s(other, 1, shaper) for one, other in self.workers.items() if one != node)
            moments_s += [
                sum_s + max(self._link_s(nic, one, shaper), slowest_s)
                for one, slowest_s in zip(counts, others_s, strict=False)
            ]
        return sorted(moments_s)[:count]

    def _own_s(self, node: int, shaper: Shaper) -> float:
        """Return the time (s) of one gradient or sum between a worker and the server."""
        return max(self._link_s(self.workers[node], 1, shaper), self._link_s(self.server, 1, shaper))

    def _link_s(self, nic: Nic, count: int, shaper: Shaper) -> float:
        links, rate_bps = nic
        return float(shaper.least_s(np.array(count * self.gradient_bytes / links), np.array(rate_bps)))


@dataclass(frozen=True, eq=False)
class RootsCost(SumsCost):
    """Cost where each iteration has a root that any of the workers may be. The root's own gradient and sum need no
    link. So of m gradients m - 1 come from others, as to a server on the root's links; the least time is that with the
    best root. The last gradient may be the root's own, and then only the sum is on the way. The sum passes each
    worker's links, for the root is not alone."""

    def _back_s(self, shaper: Shaper) -> float:
        slowest_s = max(self._link_s(nic, 1, shaper) for nic in self.workers.values())
        return max(self._moments_s(len(self.workers), shaper)[-1], slowest_s)

    def _moments_s(self, count: int, shaper: Shaper) -> list[float]:
        others_s = [served._moments_s(count - 1, shaper) for served in self._by_root()]
        return [0.0, *(min(each) for each in zip(*others_s, strict=True))]

    def _own_s(self, node: int, shaper: Shaper) -> float:
        return 0.0

    def _by_root(self) -> Iterable[SumsCost]:
        """Yield the cost for each root as if it were a server. Of workers with the same links that may sum, or that may
        not, one is enough."""
        told = {field.name: getattr(self, field.name) for field in fields(SumsCost)}
        alike = {(nic, node in self.aggregators): node for node, nic in self.workers.items()}
        for root in alike.values():
            others = {node: nic for node, nic in self.workers.items() if node != root}
            sums = tuple(node for node in self.aggregators if node != root)
            yield SumsCost(**{**told, "server": self.workers[root], "workers": others, "aggregators": sums})


def cost_of(moved: Iterable[Sent], plan: Fabric, topology: Topology, gradient_bytes: float) -> SumsCost:
    """Compute the cost of what is sent."""

    def nic(node: int) -> Nic:
        rates_bps = [topology.links[link // 2].rate_bps for link in topology.ports[node]]
        return len(rates_bps), sum(rates_bps) / len(rates_bps)

    made = RootsCost if plan.roots else SumsCost
    return made(
        **vars(plans.cost_of(moved, plan, topology, gradient_bytes)),
        gradient_bytes=gradient_bytes,
        server=nic(plan.server),
        workers={node: nic(node) for node in plan.workers},
        aggregators=plan.aggregators,
        window_s=plan.options.window_s,
    )
