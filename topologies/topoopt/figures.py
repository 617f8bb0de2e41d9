"""Figures of a found network: shares, hops, bandwidth tax."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from testbed.topologies.panels import Matching
from testbed.topologies.topoopt.degrees import allreduce_share
from testbed.topologies.topoopt.found import Found
from testbed.topologies.topoopt.mp_routes import Circuits


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
    """Return the mean, weighted by bytes, and the number of routes of each length; the mean is None without MP
    transfers."""
    total = found.job.mp_total_bytes
    crossed = sum(route.transfer_bytes * route.hops for route in found.mp_routes)
    transfers = Counter(route.hops for route in found.mp_routes)
    return {"mean": crossed / total if total else None, "transfers": dict(sorted(transfers.items()))}


def bandwidth_tax(found: Found) -> float:
    """Return the bytes on all circuits over the bytes asked for. Members of a group with rings are one circuit
    apart."""
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
