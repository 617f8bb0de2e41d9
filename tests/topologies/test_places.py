"""Circuits by the ring or panel that they are part of."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.circuits import matchings
from testbed.topologies.model import Topology
from testbed.topologies.patch_panel import repatched
from testbed.topologies.places import circuit_names, frames, row_name


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("servers=8,degree=2", {0: "ring of stride 1", 1: "ring of stride 1"}),
        ("servers=8,degree=4,rings=[1,3]", dict(enumerate(["ring of stride 1"] * 2 + ["ring of stride 3"] * 2))),
        ("servers=8,degree=3,rings=[[0,2,1,3,4,5,6,7]]", {0: "ring 1", 1: "ring 1"}),
        ("servers=8,degree=1,circuits=[[1-0,2-3]]", {0: "panel 0"}),
    ],
)
def test_panels_of_one_ring_or_matching(arguments: str, names: dict[int, str]) -> None:
    found = circuit_names(build(f"patch_panel({arguments})", rate_bps=1000))
    assert {(panel, name) for (panel, _, _), name in found.items()} == set(names.items())


def test_panels_that_rings_and_matchings_share() -> None:
    found = circuit_names(
        build("patch_panel(servers=5,degree=4,rings=[1,[1,3],[2,4]],circuits=[[2-4]])", rate_bps=1000)
    )
    assert {circuit: name for circuit, name in found.items() if circuit[0] > 1} == {
        (2, 0, 1): "ring of stride 1",
        (2, 2, 4): "panel 2",
        (3, 1, 3): "ring 2",
        (3, 2, 4): "ring 3",
    }


def test_a_move_leaves_names_of_panels() -> None:
    topology = build("patch_panel(servers=4,degree=3,rings=[1],circuits=[[0-1]])", rate_bps=1000)
    assert topology.panels
    moved = repatched(topology, topology.panels.patch(matchings(4, 3, (1,), (("0-2",),))))
    assert circuit_names(moved)[2, 0, 2] == "panel 2"


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
