"""Racks, pods and groups by name."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.frames import frames, row_name
from testbed.topologies.model import Topology


def network(expression: str) -> Topology:
    return build(expression, rate_bps=1000)


@pytest.mark.parametrize(
    ("expression", "label", "names"),
    [
        ("fat_tree(k=4)", "pod 1", "h4 h5 h6 h7 e1.0 e1.1 a1.0 a1.1"),
        ("spine_leaf(racks=2,hosts_per_rack=2,spines=1)", "rack 1", "h2 h3 leaf1"),
        ("bcube(n=3,k=2)", "rack 2", "h6 h7 h8 s0.2"),
        ("dragonfly(a=2,g=3,h=1,p=1)", "group 2", "h4 h5 r2.0 r2.1"),
    ],
)
def test_frames(expression: str, label: str, names: str) -> None:
    net = network(expression)
    assert [net.nodes[i].name for i in frames(net)[label]] == names.split()


@pytest.mark.parametrize("expression", ["star(hosts=4)", "patch_panel(servers=4,degree=2)"])
def test_one_of_a_kind_has_no_frame(expression: str) -> None:
    assert frames(network(expression)) == {}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("star(hosts=2)", ["hosts", "switch"]),
        ("bcube(n=2,k=2)", ["hosts", "level 0", "level 1"]),
        ("fat_tree(k=2)", ["hosts", "edge", "aggregation", "core"]),
        ("dragonfly(a=2,g=3,h=1)", ["hosts", "level 1"]),
    ],
)
def test_rows(expression: str, names: list[str]) -> None:
    assert [row_name(network(expression), level) for level in range(len(names))] == names
