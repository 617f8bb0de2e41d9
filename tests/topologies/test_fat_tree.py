"""A fat-tree of its first hosts."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.check import check
from testbed.topologies.describe import bisection_bps
from testbed.topologies.places import frames


@pytest.mark.parametrize(
    ("hosts", "switches"),
    [
        (2, "e0.0"),
        (3, "e0.0 e0.1 a0.0 a0.1"),
        (9, "e0.0 e0.1 e1.0 e1.1 e2.0 a0.0 a0.1 a1.0 a1.1 a2.0 a2.1 c0 c1 c2 c3"),
    ],
)
def test_switches_between_the_first_hosts_are_left(hosts: int, switches: str) -> None:
    topology = build(f"fat_tree(k=4,hosts={hosts})", rate_bps=1000)
    check("it", topology)
    names = [node.name for node in topology.nodes]
    assert names == [*(f"h{i}" for i in range(hosts)), *switches.split()]
    assert build(topology.expression, rate_bps=1000) == topology


@pytest.mark.parametrize("routing", ["two_level", "by_destination", "ecmp"])
def test_paths_are_those_of_the_whole_tree(routing: str) -> None:
    part, whole = (build(f"fat_tree(k=4,routing={routing}{more})", rate_bps=1000) for more in (",hosts=9", ""))
    for src, dst in ((src, dst) for src in part.hosts for dst in part.hosts if src != dst):
        ways = [
            [([tree.nodes[tree.head(link)].name for link in path.links], path.weight) for path in tree.paths(src, dst)]
            for tree in (part, whole)
        ]
        assert ways[0] == ways[1]


def test_all_hosts_are_the_whole_tree() -> None:
    assert build("fat_tree(k=4,hosts=16)", rate_bps=1000).expression == "fat_tree(k=4)"


def test_pods_are_drawn_and_no_formula_of_whole_racks_is_used() -> None:
    topology = build("fat_tree(k=4,hosts=11)", rate_bps=1000)
    assert list(frames(topology)) == ["pod 0", "pod 1", "pod 2"]
    assert bisection_bps(topology) == 5 * 1000
