"""Rina's claims, each held or shown not to hold."""

from __future__ import annotations

from itertools import pairwise

import pytest

from testbed.analysis.papers.rina_theory import PS, as_numbered, curve, figure_11, occupied, steps
from testbed.analysis.theory.dependency_chain import Overheads, rina_share, ring_members
from testbed.analysis.theory.occupation import to_replace
from testbed.topologies.build import build
from testbed.topologies.model import Topology

FAT_TREE, DRAGONFLY = "fat_tree(k=4,routing=by_destination)", "dragonfly(a=4,g=9,h=2)"


def network(expression: str) -> Topology:
    return build(expression, rate_bps=10**9)


@pytest.mark.parametrize("expression", [FAT_TREE, DRAGONFLY])
def test_ps_based_ina_has_half_the_throughput_at_80_percent(expression: str) -> None:
    """Section I's claim: 50 %, and held on both networks. In the order that section IV-D's rule gives."""
    net = network(expression)
    atp = [share for share, _ in curve(net, to_replace(net, PS))]
    assert atp[int(0.8 * (len(atp) - 1))] == 1 / 2
    assert atp[-1] == 1
    assert atp[-2] == 1 / 2, "the last switch doubles it"


def test_another_order_does_worse_on_a_dragonfly() -> None:
    """All its routers have two hosts, so section IV-D leaves the order open; by number, 80 % give an eighth."""
    net = network(DRAGONFLY)
    atp = [share for share, _ in curve(net, as_numbered(net))]
    assert atp[int(0.8 * 36)] == 1 / 8
    assert [round(1 / share) for share in atp[32:]] == [8, 7, 6, 5, 1]


def test_figure_5_a() -> None:
    """A fat-tree: one flow less with each ToR, then the switches of the PS's pod and the core at once."""
    net = network(FAT_TREE)
    atp = [round(1 / share) for share, _ in curve(net, to_replace(net, PS))]
    assert atp == [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 2, 2, 2, 1]


@pytest.mark.parametrize("overheads", [Overheads(1e-4, 0.0), Overheads(0.01, 0.01), Overheads(0.1, 0.1)])
@pytest.mark.parametrize(("expression", "tors"), [(FAT_TREE, 8), (DRAGONFLY, 36)])
def test_figure_11(expression: str, tors: int, overheads: Overheads) -> None:
    """Rina rises with each ToR switch. ATP has less than a third of its end until three quarters of a fat-tree's are
    replaced; on a dragonfly that depends on the order, but the end comes with the last switch in any case."""
    net = network(expression)
    both = curve(net, to_replace(net, PS), overheads)
    rina = [share for _, share in both]
    assert all(later > earlier for earlier, later in pairwise(rina[: tors + 1]))
    assert len(set(rina[tors:])) == 1
    atp = [share for share, _ in (both if expression == FAT_TREE else curve(net, as_numbered(net), overheads))]
    assert all(share < 1 / 3 for share in atp[: int(0.75 * len(atp))])
    assert all(share <= 1 / 2 for share in atp[:-1])


@pytest.mark.parametrize("expression", [FAT_TREE, DRAGONFLY])
def test_half_of_the_switches(expression: str) -> None:
    """Section VI-B replaces 6 switches for ATP and 4 for Rina in a fat-tree, 18 for both in a dragonfly: half of those
    on the paths, and half of the ToRs. Rina is then 1.5 times ATP and more if a round's overheads are small enough."""
    net = network(expression)
    order = to_replace(net, PS)
    tors = [switch for switch in order if net.nodes[switch].rack is not None]
    half = len(order) // 2, len(tors) // 2
    assert half == ((6, 4) if expression == FAT_TREE else (18, 18))
    atp = curve(net, as_numbered(net))[half[0]][0]
    for overheads, holds in ((Overheads(0.01, 0.01), True), (Overheads(0.2, 0.2), False)):
        assert (rina_share(ring_members(net, tors[: half[1]]), overheads) >= 1.5 * atp) == holds


def test_what_is_shown() -> None:
    assert [row[1:] for row in steps().rows] == [
        ("8", "2", "14", "14", "3"),
        ("16", "8", "30", "30", "15"),
        ("72", "36", "142", "142", "71"),
    ]
    assert [row[2:] for row in occupied().rows[:5]] == [
        ("0 of 13", "1/15"),
        ("6 of 13", "1/9"),
        ("10 of 13", "1/2"),
        ("11 of 13", "1/2"),
        ("13 of 13", "1/1"),
    ]
    table = figure_11()
    assert len(table.rows) == 14 + 37
    assert table.rows[10] == (FAT_TREE, "10", "77%", "c0", "0.500", "0.500", "0.804")
