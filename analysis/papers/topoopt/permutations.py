"""Ring permutations, coin-change routes, and the network that is found for section 2.2's DLRM."""

from __future__ import annotations

from collections import Counter

from testbed.analysis.papers.claim import Finding, Row, Runs
from testbed.analysis.papers.judging import near, true
from testbed.topologies.topoopt.coin_change import both_ways, fewest
from testbed.topologies.topoopt.degrees import allreduce_share
from testbed.topologies.topoopt.figures import bandwidth_tax, mp_hops
from testbed.topologies.topoopt.finder import find
from testbed.topologies.topoopt.models import dlrm
from testbed.topologies.topoopt.totient import rings

SERVERS = 12
STRIDES = (1, 5, 7, 11)
FIGURE_9 = (1, 3, 7)
EXACT = 1e-9
_MIB = 2**20


def permutations(_: Runs) -> Finding:
    """Find what the finder makes of 12 servers, and of DLRM on 16."""
    coins = both_ways(SERVERS, rings(SERVERS))
    job = dlrm()
    found = find(job, 6)
    counts = Counter((job.mp_bytes[job.mp_bytes > 0] // _MIB).tolist())
    rows = (
        Row("rings for six interfaces", "rings", float(len(FIGURE_9)), float(len(found.rings))),
        Row("share of AllReduce in all bytes", "%", theory=100 * allreduce_share(job)),
        Row("pairs with MP transfers of 32 MiB", "pairs", theory=float(counts[32])),
        Row("pairs with MP transfers of 64 MiB", "pairs", theory=float(counts[64])),
        Row("hops of MP transfers, weighted by bytes", "hops", theory=mp_hops(found)["mean"]),
        Row("bytes on all circuits over bytes asked for", "x", theory=bandwidth_tax(found)),
        Row(f"most hops by coins on {SERVERS} servers", "hops", theory=float(max(fewest(SERVERS, coins)))),
    )
    carried = sum(ring.members == tuple(range(16)) for ring in found.rings)
    return Finding(
        rows,
        (
            true(
                f"{SERVERS} servers have the permutations {', '.join(map(str, STRIDES))}",
                coins == STRIDES,
                f"they are {', '.join(map(str, coins))}",
            ),
            near("DLRM with six interfaces: as many rings as in figure 9", rows[0], EXACT),
            true(
                f"their strides are those of figure 9: {', '.join(map(str, FIGURE_9))}",
                tuple(found.strides) == FIGURE_9,
                f"they are {', '.join(map(str, found.strides))}",
            ),
            true("each ring passes all servers", carried == len(found.rings), "one leaves servers out"),
            true("no interface is left for MP circuits", not any(found.mp_circuits), "some are"),
        ),
        (
            "p and n - p are the two directions of one ring of full-duplex circuits, so six interfaces have three "
            "rings, and 12 servers have two.",
            "MP transfers have no circuits of their own here. They go over the rings, by coins.",
        ),
    )
