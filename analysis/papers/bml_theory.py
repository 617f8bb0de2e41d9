"""BML (Wang et al.): how long synchronisation takes on BCube and on a fat-tree, and what their switches cost."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from testbed.analysis.papers.claim import Table
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build

RATE_BPS = 10**9
GRADIENT_BYTES = RATE_BPS / 8
"""Takes a link one second, so that a bound in seconds is one in T_F."""

SIZES = ((16, "bcube(n=4,k=2)", "fat_tree(k=4)"), (1024, "bcube(n=32,k=2)", "fat_tree(k=16)"))


@cache
def least_gst_t_f(scheme: str, expression: str, sizes: tuple[int, ...] = ()) -> float:
    """:func:`gst_t_f` of a network by its expression; remembered, since a thousand servers take a second."""
    topology = network(expression)
    least_s = cost(build(scheme, topology, sizes), topology, GRADIENT_BYTES).bound_s()
    return least_s * RATE_BPS / topology.links[0].rate_bps


def network(expression: str) -> Topology:
    return build_topology(expression, rate_bps=RATE_BPS)


def figure_5() -> Table:
    """GST of four pairs of scheme and network, 16 and 1,024 servers."""
    rows = []
    for servers, bcube, fat_tree in SIZES:
        flat, twice = Fraction(2 * (servers - 1), servers), Fraction(servers - 1, servers)
        stated = (
            ("bml", bcube, twice),
            ("ps", bcube, 2 * twice),
            ("hierarchical", fat_tree, flat),
            ("ps", fat_tree, flat),
        )
        for scheme, network, paper in stated:
            ours = least_gst_t_f(scheme, network)
            note = "" if abs(ours - paper) < 1e-9 else "a"
            rows.append((scheme, network, str(servers), f"{ours:.6f}", f"{float(paper):.6f}", str(paper), note))
    return Table(
        "BML section 3.3 and figure 5: least GST in T_F",
        ("scheme", "network", "servers", "from the forest", "paper", "", ""),
        tuple(rows),
        (
            "a: the paper takes each transfer of PS for two hops (twice BML's GST). Servers that differ in one digit "
            "need one, so it is 2(n-1)/n in place of 2(N-1)/N.",
        ),
        left=2,
    )


def switches() -> Table:
    """Switches of n ports that N servers need."""
    rows = []
    for n in (4, 8, 16):
        for network, of_n in ((f"bcube(n={n},k=2)", 2), (f"fat_tree(k={n})", 5)):
            net = build_topology(network, rate_bps=RATE_BPS)
            paper = of_n * net.host_count // n
            rows.append((network, str(net.host_count), str(len(net.switches)), str(paper)))
    return Table(
        "BML section 3.1: switches of n ports for N servers, k N / n on BCube(n,k) and 5 N / n on a fat-tree",
        ("network", "servers", "built", "paper"),
        tuple(rows),
    )


TABLES = {"bml.fig5": figure_5, "bml.cost": switches}
