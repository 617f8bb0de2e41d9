"""Rina's model of the long dependency chain of a ring, and of what switches that add take off it.

The paper's (section III-A, equation 3): in the scatter-reduce of a ring of N workers each of N rounds ends with a
barrier. A round costs a fixed overhead O, and the computing and sending of a chunk, normally distributed around k/N
with the standard deviation sigma, of which the barrier waits for the slowest of N. So

    T = N O + k + N sigma sqrt(2 ln N).

Ours, for the paper gives its simulation's results but neither its parameters nor an equation for Rina:

- Rina's T is equation 3 with G groups in place of N workers, an INA rack being one member of the ring (section IV-D:
  that is what it takes off "the length of the RAR dependency chain"). The switch adds no overhead of its own. Counted
  in hops instead, 2G - 1 a phase (:func:`rina_steps`), racks of two, which both of the paper's networks have, would
  gain nothing: 2(2G - 1) = 2(N - 1) for G = N/2.
- A throughput as a share of B0 is k/T, where k is the time in which a link carries the gradient once: the rate at which
  the ring as a whole gets through it. It stands beside the BOM's share (:mod:`testbed.analysis.theory.occupation`),
  which is about one phase, too. Neither has the time of computing in it, which brings all curves of figure 11 nearer to
  each other.
- A ring has no bottleneck whatever the network is (section III-A's claim), so the paths between racks do not matter.
- Switches without hosts, which section IV-D would let stand for all workers below them, change nothing: the paper does
  not say how the ring passes them, and counts a fat-tree's 8 ToR switches as all that Rina replaces (section VI-B).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from testbed.topologies.model import Topology


@dataclass(frozen=True)
class Overheads:
    """Overheads that equation 3 leaves open, each as a share of k.

    The paper gives none. The defaults are an example: with its 98 MB (ResNet-50) at the 20 Gbit/s that it says Tofino-1
    adds at (section IV-C), k is 39 ms and 1 % of it 0.4 ms.
    """

    overhead: float = 0.01
    """O / k, of a round."""
    jitter: float = 0.01
    """sigma / k, of a round."""


EXAMPLE = Overheads()


def scatter_reduce_s(members: int, overhead_s: float, transfer_s: float, jitter_s: float) -> float:
    """Equation 3: T for a ring of ``members``, from O, k and sigma, in seconds."""
    return members * overhead_s + transfer_s + members * jitter_s * math.sqrt(2 * math.log(members))


def ring_members(topology: Topology, ina: Collection[int]) -> int:
    """G, of Rina: the hosts of an INA ToR switch are one member, every other host is one of its own (section IV-B).

    A rack takes part from two hosts on; the paper says "exceeds two", but its own networks have two a rack.
    """
    attached = [{topology.head(d) for d in topology.ports[switch]} & set(topology.hosts) for switch in set(ina)]
    return topology.host_count - sum(len(hosts) - 1 for hosts in attached if len(hosts) >= 2)


def rina_share(members: int, overheads: Overheads = EXAMPLE) -> float:
    """k / T: Rina's throughput over B0; a plain ring's where every member is a worker."""
    return 1 / scatter_reduce_s(members, overheads.overhead, 1.0, overheads.jitter)


def h_ar_share(racks: int, hosts_per_rack: int, overheads: Overheads = EXAMPLE) -> float:
    """k / T of H-AR: a ring's rounds within a rack, then those of a ring of racks; each link carries k in all.

    Ours, as Rina's: the paper has no equation for it (section III-A describes it).
    """
    o, sigma = overheads.overhead, overheads.jitter
    extra = [scatter_reduce_s(members, o, 0.0, sigma) for members in (hosts_per_rack, racks)]
    return 1 / (1.0 + sum(extra))


def ring_steps(workers: int) -> int:
    """Steps of a ring's two phases (section IV-B2)."""
    return 2 * (workers - 1)


def rina_steps(groups: int) -> int:
    """Steps "each phase" of Rina takes (section IV-B2): to a switch G times, to the next agent G - 1 times."""
    return 2 * groups - 1
