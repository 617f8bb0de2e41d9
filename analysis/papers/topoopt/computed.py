"""Claims about TopoOpt's networks alone: costs by Table 3 (section 5.2), and how far servers are from each other in
circuits (section 5.4)."""

from __future__ import annotations

from collections import Counter

from testbed.analysis.papers.claim import Finding, Row, Runs, Statement, Verdict, near, within
from testbed.topologies.build import build
from testbed.topologies.prices import TOPOOPT, bill, total
from testbed.topologies.topoopt.rings import both_ways, fewest, rings
from testbed.topologies.topoopt.selection import geometric

SIZES = ((4, 100), (8, 200))
"""Interfaces of a server and their rate in Gbit/s: those of figure 11."""
SERVERS, FAT_TREE = 16, "fat_tree(k=4)"
"""A server costs the same in a fat-tree, and behind panels, of any size."""
ABOUT = 0.1
IDEAL, OPTICAL = 3.4, 1.33


def costs(_: Runs) -> Finding:
    """Ratios by the bill of built networks, with two fibres an interface and with one."""
    rows = {}
    for degree, gbps in SIZES:
        where = f"d = {degree}, {gbps} Gbit/s"
        oneshot = _dollars(f"patch_panel(servers={SERVERS},degree={degree},look_ahead=true)", gbps)
        ideal = _dollars(FAT_TREE, degree * gbps)
        optical = _dollars(f"patch_panel(servers={SERVERS},degree={degree},technology=mems_3d)", gbps)
        for fibres, dollars in (("", oneshot), (", one fibre", oneshot - SERVERS * degree * TOPOOPT.cable)):
            rows["ideal", where, fibres] = Row(
                f"ideal fat-tree over TopoOpt, {where}{fibres}", "x", IDEAL, ideal / dollars
            )
            rows["optical", where, fibres] = Row(
                f"optical switches over panels, {where}{fibres}", "x", OPTICAL, optical / dollars
            )
    checks = [within(f"{row.name}: it costs more", row, low=1.0) for row in rows.values()]
    checks += [near(f"{row.name}: as the paper says, within {ABOUT:.0%}", row, ABOUT) for row in rows.values()]
    return Finding(
        tuple(rows.values()),
        tuple(checks),
        (
            "With look-ahead an interface has a 1x2 switch and a fibre to each of two panels; 'one fibre' leaves out "
            "the second fibre. No single way to count Table 3's parts gives both of the paper's averages.",
            "The ratios are the same for any number of servers, so the paper's are averages over the two sizes of "
            "figure 11 at most.",
        ),
    )


def _dollars(expression: str, gbps: int) -> float:
    return total(bill(build(expression, rate_bps=gbps * 10**9)))


RINGS = 4
"""Number of rings, of eight interfaces."""
CLUSTER, LARGE_FAT_TREE, FAT_TREE_HOPS = 432, "fat_tree(k=12)", 6
"""Section 5.4's shared cluster; its fat-tree has a path of six links at most."""
JOBS = (16, 32, 64, 128, 256, CLUSTER)
NEAR_HOPS = 3
EXACT = 1e-9


def hops(_: Runs) -> Finding:
    """Rings alone, with strides in geometric ratio; further circuits for MP transfers can only shorten ways."""
    rows, shares = [], {}
    for servers in JOBS:
        counts = _counts(servers, RINGS)
        near_by = sum(count for length, count in counts.items() if 0 < length <= NEAR_HOPS)
        mean = sum(length * count for length, count in counts.items()) / (servers - 1)
        shares[servers] = near_by / (servers - 1)
        rows += [
            Row(f"others within three hops, {servers} servers", "%", (50.0, 100.0), 100 * shares[servers]),
            Row(f"hops in the mean, {servers} servers", "hops", theory=mean),
            Row(f"most hops, {servers} servers", "hops", theory=float(max(counts))),
        ]
    tree = Row("most hops of a fat-tree", "hops", float(FAT_TREE_HOPS), _fat_tree_hops())
    small = Row("most hops, 128 servers with four interfaces", "hops", theory=float(max(_counts(128, 2))))
    return Finding(
        (*rows, tree, small),
        (
            near("a fat-tree of 432 servers has six hops at most", tree, EXACT),
            *(within(f"{row.name}: fewer than in the fat-tree", row, high=FAT_TREE_HOPS - 1) for row in rows[2:12:3]),
            _most_are_near(shares),
        ),
        (
            "The paper says neither how many servers a job has nor whether hops are circuits; here they are. Four "
            "rings reach 128 other servers within three hops at most, so one job of all 432 could not have it so.",
            "Strides are in geometric ratio, as in the paper's public code.",
        ),
    )


def _most_are_near(shares: dict[int, float]) -> Statement:
    """Holds or fails if it does so for jobs of any size; the paper gives none."""
    says = "most servers are at most three hops away"
    agreeing = [servers for servers, share in shares.items() if share > 1 / 2]
    if len(agreeing) == len(shares):
        return Statement(says, Verdict.HOLDS)
    if not agreeing:
        return Statement(says, Verdict.FAILS, "for no size of a job does the model have it so")
    sizes = f"{min(agreeing)} to {max(agreeing)}"
    return Statement(says, Verdict.UNDECIDED, f"it is so for jobs of {sizes} servers; the paper gives no sizes")


def _counts(servers: int, count: int) -> Counter[int]:
    return Counter(fewest(servers, both_ways(servers, geometric(servers, rings(servers), count))))


def _fat_tree_hops() -> float:
    """From one server to each other: all servers are alike."""
    net = build(LARGE_FAT_TREE, rate_bps=10**9)
    return float(max(len(path.links) for other in range(1, net.host_count) for path in net.paths(0, other)))
