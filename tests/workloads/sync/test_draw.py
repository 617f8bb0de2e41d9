"""Pictures of forests hold every node and edge of the classes shown, apart from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.draw import svg
from testbed.workloads.sync.schemes import build

Build = Callable[..., Topology]
SVG = "{http://www.w3.org/2000/svg}"
RACKS = "spine_leaf(racks=3,hosts_per_rack=4,spines=1)"


def elements(picture: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(SVG + tag))


def tips(picture: str, tag: str) -> list[str]:
    return [
        str(title.text) for title in (each.find(SVG + "title") for each in elements(picture, tag)) if title is not None
    ]


def test_a_ring_of_three(topology: Build) -> None:
    picture = svg(build("ring", topology("star(hosts=3)"), []), 1)
    assert tips(picture, "line") == ["h2 → h0", "h0 → h1", "h1 → h2", "h2 → h0"]
    assert sorted(tips(picture, "g")) == ["h0: worker"] * 2 + ["h1: worker, root"] * 2 + ["h2: worker"] * 2
    words = [word.text for word in elements(picture, "text")]
    assert words[0] == "class 1 of 3, 0.333 of the gradient"
    assert "reduce: partial sums to the root" in words
    assert "broadcast: the sum from the root" in words


def test_servers_without_a_gradient_look_otherwise(topology: Build) -> None:
    picture = svg(build("ps(colocated=false)", topology("star(hosts=3)"), []))
    assert Counter(tips(picture, "g")) == {
        "h0: worker": 2,
        "h1: worker": 2,
        "h2: without a gradient of its own, root": 2,
    }


@pytest.mark.parametrize(
    ("scheme", "network", "klass"),
    [
        ("ps", "star(hosts=9)", None),
        ("ps", "star(hosts=300)", 7),
        ("ring", "star(hosts=64)", 63),
        ("double_binary_tree", "star(hosts=33)", None),
        ("halving_doubling", "star(hosts=23)", 5),
        ("hierarchical_ps(across=ring)", RACKS, None),
        ("bml", "bcube(n=4,k=2)", 17),
        ("ring", "star(hosts=1)", 0),
    ],
)
def test_every_node_and_edge_once_and_apart(topology: Build, scheme: str, network: str, klass: int | None) -> None:
    forest = build(scheme, topology(network), [])
    picture = svg(forest, klass)
    shown = list(range(forest.classes)) if klass is None else [klass]
    trees = [forest.reduce[shown], forest.broadcast[shown]]
    assert len(elements(picture, "line")) == sum(np.count_nonzero(tree >= 0) for tree in trees)
    assert len(elements(picture, "rect")) == sum(np.count_nonzero(tree >= -1) for tree in trees)
    _, _, width, height = map(float, ElementTree.fromstring(picture).attrib["viewBox"].split())
    spans = []
    for rect in elements(picture, "rect"):
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= width
        assert y + h <= height
        spans.append((y, x, x + w))
    for (y, _, right), (next_y, left, _) in pairwise(sorted(spans)):
        assert next_y > y or left > right


@pytest.mark.parametrize(
    ("scheme", "network", "klass", "text"),
    [
        (
            "ring",
            "star(hosts=10)",
            None,
            "ring has 10 classes; a picture shows at most 9\n  fix: choose one with --class, 0 to 9",
        ),
        ("ring", "star(hosts=3)", 3, "ring has no class 3\n  fix: choose 0 to 2"),
        ("ring", "star(hosts=3)", -1, "ring has no class -1\n  fix: choose 0 to 2"),
        (
            "tree",
            "star(hosts=401)",
            None,
            "tree has trees of 401 nodes; a picture shows at most 400\n"
            "  fix: draw it on a smaller network of the same family",
        ),
    ],
)
def test_texts(topology: Build, scheme: str, network: str, klass: int | None, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        svg(build(scheme, topology(network), []), klass)
    assert str(caught.value) == text
