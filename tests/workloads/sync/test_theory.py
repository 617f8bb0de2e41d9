"""What papers state about schemes, from their forests: exact values, and beside them what a table approximates."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import Cost, cost
from testbed.workloads.sync.forest import ROOT
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]
RATE_BPS = 10**9
T_F_BYTES = RATE_BPS / 8
"""A gradient that takes one link a second, so that bounds are in T_F."""

GRID = list(product([1, 2, 3, 4, 8, 9], [2, 3, 4, 8]))


def in_racks(topology: Build, scheme: str, n: int, c: int) -> Cost:
    """The scheme on C racks of N nodes, for a gradient of S = 1 byte."""
    net = topology(f"spine_leaf(racks={c},hosts_per_rack={n},spines=1)")
    return cost(build(scheme, net, []), net, 1.0)


# PHub thesis, Table 4.1: N nodes in each of C racks; rounds, bytes on wire / S, least cross-rack bytes / S.


@pytest.mark.parametrize(("n", "c"), GRID)
def test_sharded_ps(topology: Build, n: int, c: int) -> None:
    found = in_racks(topology, "ps", n, c)
    assert found.rounds == 2
    assert found.wire_bytes == pytest.approx(2 * (n * c - 1))
    assert found.cross_rack_bytes == pytest.approx(2 * n * (c - 1))


@pytest.mark.parametrize(("n", "c"), [(n, c) for n, c in GRID if (n * c).bit_count() == 1])
def test_halving_doubling(topology: Build, n: int, c: int) -> None:
    """The table gives 2NC bytes on wire, one exchange of S too many, and 2C(N-1)/N between racks, which is the
    forest's 2(C-1) for N = C only; for N < C it is less than the 2(C-1) without which racks cannot have the sum."""
    found = in_racks(topology, "halving_doubling", n, c)
    exact, table = 2 * (n * c - 1), 2 * n * c
    assert found.rounds == 2 * math.log2(n * c)
    assert found.wire_bytes == pytest.approx(exact)
    assert table - exact == 2
    exact_between, table_between = 2 * (c - 1), 2 * c * (n - 1) / n
    assert found.cross_rack_bytes == pytest.approx(exact_between)
    assert (table_between == pytest.approx(exact_between)) == (n == c)
    assert (table_between < exact_between - 1e-9) == (n < c)


@pytest.mark.parametrize(("n", "c"), GRID)
def test_ring(topology: Build, n: int, c: int) -> None:
    """The table counts one round and one S more than there are, and between racks it is off by less than one S."""
    found = in_racks(topology, "ring", n, c)
    rounds, table_rounds = 2 * (n * c - 1), 2 * n * c - 1
    assert found.rounds == rounds == table_rounds - 1
    assert found.wire_bytes == pytest.approx(rounds)
    exact_between, table_between = 2 * c - 2 / n, 2 * c - 1
    assert found.cross_rack_bytes == pytest.approx(exact_between)
    assert abs(exact_between - table_between) <= 1
    assert (exact_between == pytest.approx(table_between)) == (n == 2)


@pytest.mark.parametrize(("n", "c"), [(2, 2), (4, 2), (8, 2), (3, 3), (9, 3), (4, 4), (8, 8)])
def test_tree_of_fanout_c(topology: Build, n: int, c: int) -> None:
    """The table's tree has inner nodes beside the NC leaves and counts what a host there would send itself, C/(C-1) of
    what the wire carries; and it counts every level but the lowest as between racks, which is right for N = C."""
    found = in_racks(topology, f"tree(fanout={c})", n, c)
    assert found.rounds == pytest.approx(2 * (math.log(n, c) + 1))
    exact, table = 2 * (n * c - 1), 2 * c * (c * n - 1) / (c - 1)
    assert found.wire_bytes == pytest.approx(exact)
    assert table == pytest.approx(exact * c / (c - 1))
    exact_between, table_between = 2 * (c - 1), 2 * c * (n - 1) / (c - 1)
    assert found.cross_rack_bytes == pytest.approx(exact_between)
    assert (table_between == pytest.approx(exact_between * c / (c - 1))) == (n == c)


@pytest.mark.parametrize(("n", "c"), GRID)
def test_two_level_hierarchical(topology: Build, n: int, c: int) -> None:
    found = in_racks(topology, "two_level", n, c)
    assert found.rounds == (4 if n > 1 else 2)
    assert found.wire_bytes == pytest.approx(2 * (n * c - 1))
    assert found.cross_rack_bytes == pytest.approx(2 * (c - 1))


# PHub thesis, other sections.


@pytest.mark.parametrize(
    "row", [(122, 31, 140, 17), (44, 11, 50, 6), (40, 10, 46, 6), (1232, 308, 1408, 176)], ids=lambda row: str(row[0])
)
def test_table_2_1(topology: Build, row: tuple[int, ...]) -> None:
    """Bandwidth of the host that needs most, both ways: CC, CS, NCC, NCS stand as 14 : 3.5 : 16 : 2 for 8 workers.

    The table's figures are rounded, so the four are compared with the one scale that fits them best.
    """
    forms = [
        ("ps(servers=1)", 8),
        ("ps", 8),
        ("ps(colocated=false)", 9),
        ("ps(colocated=false,servers=8)", 16),
    ]
    most = []
    for form, hosts in forms:
        net = topology(f"star(hosts={hosts})")
        loads = cost(build(form, net, []), net, 1.0).link_bytes
        most.append((loads[0::2] + loads[1::2]).max())
    assert most == pytest.approx([14, 3.5, 16, 2])
    scale = np.dot(row, most) / np.dot(most, most)
    assert np.abs(np.array(row) - scale * np.array(most)).max() <= 1


@pytest.mark.parametrize(("n", "r"), [(4, 2), (8, 4), (5, 3)])
def test_what_passes_a_racks_uplink(topology: Build, n: int, r: int) -> None:
    """Section 2.3: N(R-1)/R gradients a rack and direction flat, (R-1)/R hierarchically, on the way up and back."""
    net = topology(f"spine_leaf(racks={r},hosts_per_rack={n},spines=1)")
    uplinks = [d for leaf in net.switches for d in net.ports[leaf] if net.nodes[net.head(d)].level == 2]
    for scheme, once in (("ps", n), ("hierarchical_ps", 1), ("hierarchical_ps(across=ring)", 1), ("two_level", 1)):
        loads = cost(build(scheme, net, []), net, 1.0).link_bytes
        assert [loads[d] for d in uplinks] == pytest.approx([2 * once * (r - 1) / r] * r)


def test_the_square_root_of_n_groups(topology: Build) -> None:
    """Equation 4.2: a global master hears n/k - 1 members and k - 1 masters, least for k = sqrt(n)."""
    heard = {}
    for k in (1, 2, 4, 8, 16, 32, 64):
        forest = build("two_level", topology(f"spine_leaf(racks={k},hosts_per_rack={64 // k},spines=1)"), [])
        gm = np.argmax(forest.reduce == ROOT, axis=1)
        children = np.count_nonzero(forest.reduce == gm[:, None], axis=1)
        assert set(children.tolist()) == {64 // k - 1 + k - 1}
        heard[k] = int(children[0])
    assert min(heard, key=lambda k: heard[k]) == 8


# BML, section 3. What bml itself takes is in test_cost.


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (4, 2), (2, 3), (3, 3)])
def test_ps_on_bcube(topology: Build, n: int, k: int) -> None:
    """ "It will double the GST" (section 3.3) where k = 2 is nearly so: 2(n-1)/n x T_F, for of k hops a pair of servers
    needs those only whose digits differ. Servers forward for each other: BCube's routes pass them."""
    net = topology(f"bcube(n={n},k={k})")
    ps, bml = (cost(build(scheme, net, []), net, T_F_BYTES) for scheme in ("ps", "bml"))
    count = n**k
    assert ps.bound_s() == pytest.approx(2 * (n - 1) / n)
    assert ps.bound_s() / bml.bound_s() == pytest.approx(k * (n - 1) / n * count / (count - 1))
    through_a_server = [
        net.nodes[net.head(link)].kind for path in net.paths(0, count - 1) for link in path.links[:-1]
    ].count("host")
    assert through_a_server == k - 1


@pytest.mark.parametrize(
    ("scheme", "network", "gst"),
    [
        ("bml", "bcube(n=4,k=2)", 15 / 16),
        ("bml", "bcube(n=32,k=2)", 1023 / 1024),
        ("ps", "bcube(n=4,k=2)", 2 * 3 / 4),  # the paper has twice BML's
        ("hierarchical", "fat_tree(k=4)", 2 * 15 / 16),
        ("hierarchical", "fat_tree(k=16)", 2 * 1023 / 1024),
        ("ps", "fat_tree(k=4)", 2 * 15 / 16),
    ],
)
def test_figure_5(topology: Build, scheme: str, network: str, gst: float) -> None:
    """Those of 1,024 servers that take seconds are in ``tests/analysis/papers/test_bml_theory.py``."""
    net = topology(network)
    assert cost(build(scheme, net, []), net, T_F_BYTES).bound_s() == pytest.approx(gst)


def test_switches_of_equal_networks(topology: Build) -> None:
    """Section 3.1: BCube has k N / n switches of n ports, a fat-tree 5 N / n."""
    for n in (4, 8):
        assert len(topology(f"bcube(n={n},k=2)").switches) == 2 * n**2 // n
        assert len(topology(f"fat_tree(k={n})").switches) == 5 * (n**3 // 4) // n


# Rina, section IV-B2; what switches add is not here.


@pytest.mark.parametrize(
    ("network", "workers", "rar", "h_ar"),
    [
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1)", 8, 14, 2 * 3 + 2 * 1),
        ("fat_tree(k=4)", 16, 30, 2 * 1 + 2 * 7),
        ("spine_leaf(racks=9,hosts_per_rack=8,spines=1)", 72, 142, 2 * 7 + 2 * 8),
    ],
)
def test_steps(topology: Build, network: str, workers: int, rar: int, h_ar: int) -> None:
    net = topology(network)
    steps = {scheme: cost(build(scheme, net, []), net, 1.0) for scheme in ("ring", "h_ar", "ps")}
    assert steps["ring"].rounds == rar == 2 * (workers - 1)
    assert steps["h_ar"].rounds == h_ar
    assert steps["ps"].rounds == 2
    assert steps["h_ar"].wire_bytes == pytest.approx(steps["ring"].wire_bytes)
    assert steps["h_ar"].cross_rack_bytes <= steps["ring"].cross_rack_bytes + 1e-9
