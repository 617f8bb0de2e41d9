"""Networks from the links that a run recorded."""

from __future__ import annotations

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.draw import svg
from testbed.topologies.recorded import from_links

FAMILIES = (
    *("star(hosts=3)", "bcube(n=3,k=2)", "fat_tree(k=4)"),
    *("spine_leaf(racks=2,hosts_per_rack=3,spines=2)", "cloud"),
)


@pytest.mark.parametrize("expression", FAMILIES)
def test_a_network_comes_back_from_the_names_at_its_links_ends(expression: str) -> None:
    built = build(expression, rate_bps=10**9)
    names = [node.name for node in built.nodes]
    found = from_links("mine.py:net", [(names[link.a], names[link.b]) for link in built.links], 10**9)
    assert {node.name for node in found.nodes if node.kind == "host"} == {names[host] for host in built.hosts}
    there = [(found.nodes[link.a].name, found.nodes[link.b].name) for link in found.links]
    assert there == [(names[link.a], names[link.b]) for link in built.links]
    if not expression.startswith("bcube"):  # all its switches lead to hosts; their levels are numbers of their own
        level = {node.name: node.level for node in built.nodes}
        assert {node.name: node.level for node in found.nodes} == level
    assert svg(found).count("<title>h0") >= 1


def test_nodes_that_no_host_reaches_are_drawn_as_well() -> None:
    found = from_links("odd", [("a", "b"), ("c", "d"), ("d", "e"), ("e", "c")], 10**9)
    assert {node.name: node.level for node in found.nodes} == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 1}
    assert "<svg" in svg(found)


def test_its_routes_are_not_known() -> None:
    found = from_links("mine.py:net", [("a", "s"), ("b", "s")], 10**9)
    with pytest.raises(TopologyError, match=r"it is not known how mine.py:net routes"):
        found.paths(0, 1)
