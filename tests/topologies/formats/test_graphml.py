"""GraphML and GML: labels, speeds, coordinates, hosts that are hung on nodes, parallel and opposite edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.model import Topology

GML = """\
graph [
  directed 0
  node [ id 0 label "Prag" Longitude 14.42 Latitude 50.09 ]
  node [ id 1 label "New York" Longitude -74.0 Latitude 40.7 ]
  node [ id 2 label "Prag" ]
  node [ id 3 label "9" ]
  node [ id 4 label "alone" ]
  edge [ source 0 target 1 LinkSpeed "2.5" LinkSpeedUnits "G" LinkSpeedRaw 2500000000.0 ]
  edge [ source 1 target 0 LinkSpeed "155" LinkSpeedUnits "M" ]
  edge [ source 1 target 2 LinkSpeed "10" ]
  edge [ source 2 target 2 ]
  edge [ source 2 target 3 ]
]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def make(text: str, arguments: str = "", ending: str = "gml") -> Topology:
        Path(f"net.{ending}").write_text(text)
        return build(f"net.{ending}({arguments})", rate_bps=10**8, delay_s=0.001)

    return make


def links(topology: Topology) -> list[tuple[str, str, int]]:
    return [(topology.nodes[one.a].name, topology.nodes[one.b].name, one.rate_bps) for one in topology.links]


def test_labels_speeds_and_hosts_on_leaves(made) -> None:
    topology = made(GML)
    assert [node.name for node in topology.nodes] == ["h0", "Prag", "New_York", "Prag_2", "n9"]
    assert [node.level for node in topology.nodes] == [0, 4, 3, 2, 1]
    assert links(topology) == [
        ("h0", "n9", 10**8),
        ("Prag", "New_York", 2_500_000_000),
        ("Prag", "New_York", 155_000_000),
        ("New_York", "Prag_2", 10**8),
        ("Prag_2", "n9", 10**8),
    ]
    assert {link.delay_s for link in topology.links} == {0.001}
    assert topology.notes == (
        "left out: 1 link from a node to itself",
        "left out: 1 node without a link ('alone')",
        "1 label of several nodes: 'Prag'",
        "3 nodes with another name: 'New York' is New_York, 'Prag' is Prag_2, '9' is n9",
        "2 of 4 links have no rate: the spec's is taken",
        "added: 1 host, on n9",
    )


def test_delays_by_distance(made) -> None:
    topology = made(GML, "hosts=all,delays=distance,rates=spec")
    assert topology.host_count == 4
    far, near = topology.links[4], topology.links[6]
    assert far.delay_s == pytest.approx(6_568e3 / 2e8, rel=0.01)  # Prague to New York: 6,568 km
    assert near.delay_s == 0.001
    assert {link.rate_bps for link in topology.links} == {10**8}
    assert "2 of 4 links lack coordinates at an end: the spec's delay is taken" in topology.notes


def test_nodes_that_are_hosts(made) -> None:
    topology = made(GML, "hosts=[n9,Prag]")
    assert [(node.name, node.kind) for node in topology.nodes] == [
        ("n9", "host"),
        ("Prag", "host"),
        ("New_York", "switch"),
        ("Prag_2", "switch"),
    ]
    assert [len(path.links) for path in topology.paths(0, 1)] == [3]
    both = made(GML.replace("target 2 LinkSpeed", "target 3 LinkSpeed"), "hosts=[Prag,n9],routing=ecmp")
    assert [len(path.links) for path in both.paths(0, 1)] == [2, 2]


GRAPHML = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="k" for="node" attr.name="kind" attr.type="string"/>
  <key id="r" for="edge" attr.name="rate_bps" attr.type="long"/>
  <graph edgedefault="directed">
    <node id="a"><data key="k">host</data></node><node id="b"/><node id="c"><data key="k">host</data></node>
    <edge source="a" target="b"><data key="r">5000000</data></edge>
    <edge source="b" target="a"><data key="r">5000000</data></edge>
    <edge source="a" target="b"><data key="r">5000000</data></edge>
    <edge source="b" target="c"/>
  </graph>
</graphml>
"""


def test_opposite_edges_are_one_link(made) -> None:
    topology = made(GRAPHML, ending="graphml")
    assert links(topology) == [("a", "b", 5_000_000), ("a", "b", 5_000_000), ("b", "c", 10**8)]
    assert topology.notes[0] == "1 pair of opposite edges: one link each"
    with pytest.raises(TopologyError, match="the two directions between b and a differ"):
        made(GRAPHML.replace("5000000", "6000000", 1), ending="graphml")


def test_parts_that_no_link_joins_are_read_and_said(made) -> None:
    topology = made(
        "graph [ node [id 0] node [id 1] node [id 2] node [id 3] edge [source 0 target 1] edge [source 2 target 3] ]"
    )
    assert topology.host_count == 4
    assert topology.notes[-1] == "2 parts that no link joins"
    with pytest.raises(TopologyError, match="no route leads from h0 to h2"):
        topology.paths(0, 2)


@pytest.mark.parametrize("entity", ['<!DOCTYPE x [<!ENTITY a "b">]>', "<!doctype x>", '<!ENTITY a "b">'])
def test_a_document_type_is_refused_before_it_is_parsed(made, entity: str) -> None:
    with pytest.raises(TopologyError, match="has a document type"):
        made(GRAPHML.replace("<graphml", f"{entity}<graphml", 1), ending="graphml")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "graph",
        "graph [",
        "graph [ node [ id 0 ] edge [ source 0 target 1 ] ]",
        "[" * 9000,
        "graph " + "[ x " * 9000,
    ],
)
def test_what_is_no_gml(made, text: str) -> None:
    with pytest.raises(TopologyError, match=r"net\.gml is no GML that NetworkX reads"):
        made(text)


@pytest.mark.parametrize("speed", ["-1", "fast", "1e400", "nan", ""])
def test_speeds_that_no_link_has(made, speed: str) -> None:
    text = GML.replace("155", speed)
    if speed:
        with pytest.raises(
            TopologyError, match=r"link New York - Prag has LinkSpeed|link Prag - New York has LinkSpeed"
        ):
            made(text)
    assert links(made(text, "rates=spec"))[2] == ("Prag", "New_York", 10**8)
