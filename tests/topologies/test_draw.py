"""Pictures hold every node and link, apart from each other, and say what they show."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.draw import MOST_NODES, layout, svg, text
from testbed.topologies.places import frames

EXPRESSIONS = [
    "star(hosts=1)",
    "star(hosts=9)",
    "bcube(n=3,k=2)",
    "bcube(n=2,k=4)",
    "bcube(n=16,k=2)",
    "fat_tree(k=4)",
    "fat_tree(k=8)",
    "spine_leaf(racks=2,hosts_per_rack=4,spines=1)",
    "cloud(rows=2,sizes=[7,5,3,1],rack_delay_s=0,row_delay_s=0)",
]
ROUND = ["dragonfly(a=4,g=9,h=2)", "dragonfly(a=1,g=2,h=2)", "dragonfly(a=6,g=5,h=2,p=4)", "dragonfly(a=2,g=3,h=1,p=1)"]
SVG = "{http://www.w3.org/2000/svg}"


def elements(picture: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(SVG + tag))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_layout_is_in_the_unit_box_and_apart(expression: str) -> None:
    topology = build(expression, rate_bps=1000)
    places = layout(topology)
    assert set(places) == set(range(len(topology.nodes)))
    assert all(0 < x < 1 and 0 < y < 1 for x, y in places.values())
    assert len(set(places.values())) == len(places)
    for a, b in combinations(topology.nodes, 2):
        i, j = topology.index[a.name], topology.index[b.name]
        assert (places[i][1] == places[j][1]) == (a.level == b.level)


def test_hosts_are_at_the_bottom_except_in_bcube() -> None:
    fat_tree = layout(build("fat_tree(k=4)", rate_bps=1000))
    assert max(y for _, y in fat_tree.values()) == fat_tree[0][1]
    bcube = build("bcube(n=3,k=2)", rate_bps=1000)
    places = layout(bcube)
    assert places[bcube.index["s1.0"]][1] < places[0][1] < places[bcube.index["s0.0"]][1]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_boxes_of_nodes_do_not_overlap(expression: str) -> None:
    picture = svg(build(expression, rate_bps=1000))
    _, _, width, height = map(float, ElementTree.fromstring(picture).attrib["viewBox"].split())
    spans = []
    for box in elements(picture, "rect"):
        x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        spans.append((y, x, x + w))
    spans.sort()
    for (y, _, right), (next_y, left, _) in pairwise(spans):
        assert next_y > y or left > right


@pytest.mark.parametrize("expression", ROUND)
def test_boxes_of_a_dragonfly_do_not_overlap(expression: str) -> None:
    topology = build(expression, rate_bps=1000)
    picture = svg(topology)
    _, _, width, height = map(float, ElementTree.fromstring(picture).attrib["viewBox"].split())
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height")) for box in elements(picture, "rect")
    ]
    assert len(boxes) == len(topology.nodes)
    for x, y, w, h in boxes:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    for (x, y, w, h), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y
    assert len(elements(picture, "text")) == len(topology.nodes) + len(frames(topology))


@pytest.mark.parametrize("expression", EXPRESSIONS + ROUND)
def test_a_plain_picture_shows_each_link_once(expression: str) -> None:
    topology = build(expression, rate_bps=200_000_000)
    tips = [line[0].text for line in elements(svg(topology), "line") if "–" in (line[0].text or "")]  # not the key's
    names = [node.name for node in topology.nodes]
    rates = [link.rate_bps // 1_000_000 for link in topology.links]
    assert tips == [
        f"{names[a.a]} – {names[a.b]}: {mbps} Mbit/s" for a, mbps in zip(topology.links, rates, strict=True)
    ]


def test_a_picture_of_load_shows_each_direction_in_its_colour() -> None:
    topology = build("star(hosts=2)", rate_bps=1000)
    picture = svg(topology, {0: 50.0, 1: 100.0, 2: 0.0}, label="bytes <sent>", as_text=lambda v: f"{v:.0f} B")
    lines = elements(picture, "line")
    assert [line[0].text for line in lines] == [
        "h0 → s0: 50 B",
        "s0 → h0: 100 B",
        "h1 → s0: 0 B",
        "s0 → h1: not counted",
    ]
    assert [line.attrib["stroke"] for line in lines] == ["#f0a020", "#d62839", "#8b95a3", "#8b95a3"]
    words = [word.text for word in elements(picture, "text")]
    assert words[:2] == ["hosts", "switch"]
    assert words[2:] == ["h0", "h1", "s0", "0", "100 B", "bytes <sent>", "one lane per direction, traffic keeps right"]


def test_traffic_keeps_right() -> None:
    """The hosts of a star are below its switch: the lane up is to the right of the lane down."""
    lines = elements(svg(build("star(hosts=1)", rate_bps=1000), {0: 1.0, 1: 1.0}), "line")
    up, down = (float(line.attrib["x1"]) for line in lines)
    assert up - down == pytest.approx(5)


@pytest.mark.parametrize(("highest", "colour"), [(None, "#d62839"), (100.0, "#f0a020"), (10.0, "#d62839")])
def test_the_scale_can_be_fixed(highest: float | None, colour: str) -> None:
    picture = svg(build("star(hosts=1)", rate_bps=1000), {0: 50.0, 1: 50.0}, highest=highest)
    assert elements(picture, "line")[0].attrib["stroke"] == colour


def test_a_network_without_load_is_grey() -> None:
    picture = svg(build("star(hosts=2)", rate_bps=1000), {})
    assert {line.attrib["stroke"] for line in elements(picture, "line")} == {"#8b95a3"}


def test_too_many_nodes_for_a_picture() -> None:
    with pytest.raises(TopologyError) as error:
        svg(build("bcube(n=32,k=2)", rate_bps=1000))
    assert MOST_NODES == 400
    assert str(error.value) == (
        "bcube(n=32,k=2) has 1,088 nodes; a picture shows at most 400\n  fix: draw a smaller network of the same family"
    )


def test_text_of_a_star() -> None:
    assert text(build("star(hosts=9)", rate_bps=1000)) == "level 1: 1 switch\n  s0 -- h0..h8"


def test_text_of_a_bcube() -> None:
    assert text(build("bcube(n=3,k=2)", rate_bps=1000)).splitlines() == [
        "level 2: 3 switches",
        "  s1.0 -- h0 h3 h6",
        "  s1.1 -- h1 h4 h7",
        "  s1.2 -- h2 h5 h8",
        "level 1: 3 switches",
        "  s0.0 -- h0 h1 h2",
        "  s0.1 -- h3 h4 h5",
        "  s0.2 -- h6 h7 h8",
    ]


def test_text_of_a_large_network_is_cut_short() -> None:
    lines = text(build("bcube(n=32,k=2)", rate_bps=1000), most_lines=2).splitlines()
    assert lines[0] == "level 2: 32 switches"
    assert lines[1].endswith("h416 h448 ... 17 more")
    assert lines[3:] == [
        "  ... and 30 more",
        "level 1: 32 switches",
        "  s0.0 -- h0..h31",
        "  s0.1 -- h32..h63",
        lines[3],
    ]


def test_rows_and_frames_have_names() -> None:
    words = [word.text for word in elements(svg(build("fat_tree(k=4)", rate_bps=1000)), "text")]
    assert words[:8] == ["hosts", "edge", "aggregation", "core", "pod 0", "pod 1", "pod 2", "pod 3"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_frame_is_around_its_nodes_and_no_others(expression: str) -> None:
    """Drawn: the boxes of all other nodes are outside."""
    topology = build(expression, rate_bps=1000)
    picture = svg(topology)
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height")) for box in elements(picture, "rect")
    ]
    for (_, nodes), frame in zip(frames(topology).items(), elements(picture, "path"), strict=True):
        left, top, right, bottom = map(float, re.findall(r"[\d.]+", frame.attrib["d"])[:4])
        for i, (x, y, w, h) in enumerate(boxes):
            inside = left <= x and x + w <= right and top <= y and y + h <= bottom
            outside = x + w < left or right < x or y + h < top or bottom < y
            assert inside if i in nodes else outside


def test_links_of_several_rates_have_a_key() -> None:
    picture = svg(build("spine_leaf(racks=2,hosts_per_rack=4,spines=1)", rate_bps=10**9))
    assert [word.text for word in elements(picture, "text")][-2:] == ["1 Gbit/s", "4 Gbit/s"]
    widths = {
        (line[0].text or "").rpartition(": ")[2]: line.attrib["stroke-width"] for line in elements(picture, "line")
    }
    assert widths == {"1 Gbit/s": "1.4", "4 Gbit/s": "2.8"}
    assert "Gbit/s</text>" not in svg(build("fat_tree(k=4)", rate_bps=10**9))


def test_circuits_have_the_colour_of_their_ring() -> None:
    picture = svg(build("patch_panel(servers=8,degree=4,rings=[1,3])", rate_bps=1000))
    assert [word.text for word in elements(picture, "text")][-2:] == ["ring of stride 1", "ring of stride 3"]
    colour = {line[0].text: line.attrib["stroke"] for line in elements(picture, "line")}
    assert colour["h0 – h1 over p0: 1 kbit/s"] == colour["ring of stride 1"] != colour["ring of stride 3"]
    assert colour["h0 – h3 over p2: 1 kbit/s"] == colour["ring of stride 3"]


def test_rings_matchings_and_dark_ports_are_told_apart() -> None:
    picture = svg(build("patch_panel(servers=6,degree=5,rings=[1,[0,1,2]],circuits=[[3-5]])", rate_bps=1000))
    key = ["ring of stride 1", "ring 2", "panel 2", "dark port"]
    assert [word.text for word in elements(picture, "text")][-4:] == key
    colour = {line[0].text: line.attrib["stroke"] for line in elements(picture, "line")}
    assert len({colour[name] for name in key}) == 4
    assert colour["h3 – h5 over p2: 1 kbit/s"] == colour["panel 2"]
    assert colour["h4: dark at p2, p3, p4"] == colour["dark port"]


def test_links_that_differ_are_told_apart() -> None:
    net = build("star(hosts=3)", rate_bps=10**9)
    own = replace(net, links=(replace(net.links[0], rate_bps=10**8, delay_s=0.005), *net.links[1:]))
    picture = svg(own)
    tips = [one.text for one in elements(picture, "title")]
    assert "h0 – s0: 100 Mbit/s, 5.00 ms" in tips or "h0 – s0: 100 Mbit/s, 5 ms" in tips
    assert "h1 – s0: 1 Gbit/s" in tips
    assert {"100 Mbit/s", "1 Gbit/s"} <= {one.text for one in elements(picture, "text")}


def test_a_circuit_is_as_fast_as_the_slower_of_its_links() -> None:
    net = build("patch_panel(servers=4,degree=2)", rate_bps=10**9)
    slow = replace(net, links=(replace(net.links[0], rate_bps=10**8), *net.links[1:]))
    tips = [one.text or "" for one in elements(svg(slow), "title")]
    assert sum("100 Mbit/s" in tip for tip in tips) == 1
