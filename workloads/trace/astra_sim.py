"""Networks as ASTRA-sim's analytical back end has them: ranks around a switch or in a ring, with one rate and delay."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import TopologyError
from testbed.topologies.model import Topology

_FIX = "write a network file for ASTRA-sim by hand"


def network(topology: Topology, workers: Sequence[int]) -> str:
    """Return the text of the network file for these nodes, by rank.

    Raises:
        TopologyError: its analytical network is not like that.
    """
    shape = _shape([_next(topology, worker) for worker in workers], workers)
    if not shape:
        raise TopologyError(
            f"{topology.expression} joins its ranks neither by one switch nor in a ring by their numbers", fix=_FIX
        )
    rates, delays = ({*values} for values in zip(*((one.rate_bps, one.delay_s) for one in topology.links), strict=True))
    if len(rates) > 1 or len(delays) > 1:
        raise TopologyError(f"links of {topology.expression} have several rates or delays", fix=_FIX)
    hop_s = delays.pop() * (2 if topology.panels else 1)  # a circuit is two links
    return (
        f"topology: [ {shape} ]\nnpus_count: [ {len(workers)} ]\nbandwidth: [ {rates.pop() / 8e9:.9g} ]  # GB/s\n"
        f"latency: [ {1e9 * hop_s:.1f} ]  # ns\n"
    )


def _next(topology: Topology, node: int) -> list[int]:
    """List the nodes that links or circuits of a node lead to."""
    found = [topology.head(topology.circuits.get(link, link)) for link in topology.ports[node]]
    return sorted(one for one in found if topology.nodes[one].kind != "panel")


def _shape(neighbours: Sequence[Sequence[int]], workers: Sequence[int]) -> str:
    """Name the shape; empty if there is no name."""
    if len(neighbours[0]) == 1 and neighbours[0][0] not in workers and all(one == neighbours[0] for one in neighbours):
        return "Switch"
    around = [sorted((workers[rank - 1], workers[(rank + 1) % len(workers)])) for rank in range(len(workers))]
    return "Ring" if len(workers) > 2 and list(neighbours) == around else ""
