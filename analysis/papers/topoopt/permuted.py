"""Ring permutations, and the network that is found for section 2.2's DLRM; DLRM and CANDLE on it, over rings of other
permutations (figures 4, 6 and 9); and a small DLRM that is trained, against data parallelism and a switch."""

from __future__ import annotations

from collections import Counter

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, near, true, within
from testbed.analysis.papers.evidence import GST, gst_s, measure, speed_up
from testbed.topologies.topoopt.demand import dlrm
from testbed.topologies.topoopt.finder import bandwidth_tax, find, mp_hops
from testbed.topologies.topoopt.rings import both_ways, fewest, rings
from testbed.topologies.topoopt.selection import allreduce_share

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


PERMS = Experiment("topoopt/perms.yaml", ("workload.iterations=4",), ("repeats=5", "workload.iterations=40"))
PERMS_ALLREDUCE = Experiment("topoopt/perms_allreduce.yaml", (), ("repeats=5", "workload.iterations=40"), GST)
PERMS_CANDLE = Experiment(
    "topoopt/perms_candle.yaml", ("workload.iterations=3",), ("repeats=5", "workload.iterations=20")
)
ALONE = ("p = 1", "p = 3", "p = 7")
FOUND = "found"
ABOUT = 0.05


def permuted(runs: Runs) -> Finding:
    """AllReduce's time over that of the found rings, and the iteration's.

    An AllReduce is measured without MP transfers. Beside them its time says little: some servers begin while others
    still wait for messages, which share links with it, so that it is longer the sooner these come.
    """
    run, alone = runs.get(PERMS.spec), runs.get(PERMS_ALLREDUCE.spec)
    reduced = [
        Row(
            f"AllReduce, {label} over found",
            "x",
            1.0,
            1.0,
            measure(alone, [label, FOUND], lambda one, found: gst_s(one) / gst_s(found), number=GST),
        )
        for label in ALONE
    ]
    whole = [Row(f"iteration, {label} over found", "x", ours=measure(run, [label, FOUND], speed_up)) for label in ALONE]
    towers = Row(
        f"CANDLE: iteration, {ALONE[0]} over {FOUND}",
        "x",
        ours=measure(runs.get(PERMS_CANDLE.spec), [ALONE[0], FOUND], speed_up),
    )
    return Finding(
        (*reduced, *whole, towers),
        (
            *(near(f"{row.name}: AllReduce takes as long, within {ABOUT:.0%}", row, ABOUT) for row in reduced),
            *(within(f"{row.name}: it takes longer, because of MP transfers", row, low=1.0) for row in whole),
            within(f"{towers.name}: rings of its groups' own take less time", towers, low=1.0),
        ),
        (
            "p = 1, 3 and 7 are three parallel circuits each, so that all arms use as many interfaces.",
            "The AllReduce is that of BERT; DLRM's and CANDLE's share their links with MP transfers.",
        ),
    )


DLRM = Experiment("topoopt/dlrm.yaml", ("workload.iterations=5",), ("repeats=5", "workload.iterations=40"))
DATA, SINGLE, IDEAL = "data", "single ring", "star"
AT_LEAST = {DATA: 2.0, SINGLE: 3.0, IDEAL: 0.9}
"""Least time of an arm's iterations over that of the found one's, by arm."""


def trained(runs: Runs) -> Finding:
    """Iteration times of other arms over those of the found one."""
    run = runs.get(DLRM.spec)
    rows = {
        label: Row(f"iteration, {label} over {FOUND}", "x", ours=measure(run, [label, FOUND], speed_up))
        for label in AT_LEAST
    }
    return Finding(
        tuple(rows.values()),
        tuple(
            within(f"{row.name}: at least {AT_LEAST[label]:g}", row, low=AT_LEAST[label]) for label, row in rows.items()
        ),
        ("The model is small enough to be trained on two cores; the paper's DLRM has tables of 20 GB.",),
    )
