"""Costs of networks by Table 3, against section 5.2."""

from __future__ import annotations

from testbed.analysis.papers.claim import Finding, Row, Runs
from testbed.analysis.papers.judging import near, within
from testbed.topologies.build import build
from testbed.topologies.prices import TOPOOPT, bill, total

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
