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

from testbed.topologies.circuits import lay
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.found import Found, Ring
from testbed.topologies.topoopt.mp import Circuits, mp_circuits, mp_routes
from testbed.topologies.topoopt.selection import Select, allot, allreduce_rings, select


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
