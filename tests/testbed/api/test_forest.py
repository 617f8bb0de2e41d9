"""What schemes do, on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import testbed as api
from testbed.api.forest import proposed
from testbed.base.columns import tabbed
from testbed.base.errors import SchemeError, SpecError, TopologyError, UsageError

from ..conftest import Called


def test_a_forest_says_what_the_command_line_says(testbed: Callable[..., Called]) -> None:
    forest = api.forest("bml", api.topology("bcube(n=3,k=2)"))
    said = json.loads(testbed("forest", "bml", "bcube(n=3,k=2)", "--json").out)
    assert json.loads(json.dumps(forest.facts)) == said
    assert forest.least_gst_s == said["cost"]["bound_s"]
    assert forest.rounds == said["cost"]["rounds"]
    assert forest.links["bytes"].sum() == pytest.approx(2 * forest.wire_bytes)  # up one link and down another
    assert forest.text(tabbed) + "\n" == testbed("forest", "bml", "bcube(n=3,k=2)").out


def test_a_network_may_be_its_expression() -> None:
    assert api.forest("ring", "star(hosts=3)").facts == api.forest("ring", api.topology("star(hosts=3)")).facts


def test_pictures_are_shown_and_saved(tmp_path: Path) -> None:
    forest = api.forest("bml", api.topology("bcube(n=3,k=2)"), size_bytes=4_000)
    picture = forest.draw()
    assert "class 0 of 18" in picture._repr_svg_()
    assert "class 17 of 18" in forest.draw(17).svg
    assert picture.save(tmp_path / "trees.svg").read_text() == picture.svg
    assert forest.topology.draw().svg.startswith("<svg")
    with pytest.raises(UsageError, match=r"the format is svg, and the name ends in .png\n  fix: write .*trees.svg"):
        picture.save(tmp_path / "trees.png")
    with pytest.raises(SchemeError, match="no class 18"):
        forest.draw(18)


def test_what_is_too_large_for_a_picture_shows_itself_as_text() -> None:
    network = api.topology("star(hosts=500)")
    with pytest.raises(TopologyError, match="at most 400"):
        network.draw()
    assert "<svg" not in network._repr_html_()
    assert "at most 400" in network._repr_html_()
    assert "at most 400" in api.forest("ring", network, size_bytes=4_000_000)._repr_html_()


def test_mistakes_are_the_command_lines() -> None:
    star = api.topology("star(hosts=3)")
    with pytest.raises(SpecError, match="there is no scheme 'rings'"):
        api.forest("rings", star)
    with pytest.raises(SchemeError, match="bml needs a BCube"):
        api.forest("bml", star)
    with pytest.raises(SpecError, match="is not a rate"):
        api.topology("star(hosts=3)", rate="fast")
    with pytest.raises(UsageError, match="exclude each other"):
        api.forest("ring", star, model="vgg19", size_bytes=4)
    with pytest.raises(UsageError, match="at least 4"):
        api.forest("ring", star, size_bytes=0)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """A scheme that leaves out h2 on the way back."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom testbed.workloads.sync.forest import ABSENT as A, ROOT as R, Forest\n"
        "def mine(topology, tensor_sizes):\n"
        "    names = tuple(node.name for node in topology.nodes)\n"
        "    tree, short = np.array([[R, 0, 0, A]], np.int32), np.array([[R, 0, A, A]], np.int32)\n"
        "    return Forest('mine', names, (0, 1, 2), np.array([1]), tree, short)\n"
    )
    return f"{tmp_path}/mine.py:mine"


def test_a_forest_whose_sums_are_wrong_is_refused(wrong: str) -> None:
    with pytest.raises(SchemeError, match="h2"):
        api.forest(wrong, api.topology("star(hosts=3)"))


def test_one_whose_sums_are_wrong_can_be_looked_at(wrong: str) -> None:
    """As testbed forest does, which says why."""
    made = proposed(wrong, api.topology("star(hosts=3)"), None, 4_000, 1500)
    assert (made.facts["verified"], made.facts["cost"]) == (False, None)
    assert "h2" in made.facts["problem"]
    assert made.facts["problem"] in str(made)
    assert str(made).endswith(f"fix          {made.facts['fix']}")


def test_messages_and_schedules_of_a_forest() -> None:
    forest = api.forest("ring", api.topology("star(hosts=4)"), size_bytes=4_000)
    every = list(forest.messages(chunk_bytes=400))
    assert sum(one.bytes for one in every) == forest.wire_bytes
    assert len(every) == 4 * 3 * 6  # classes, chunks of each, edges up and down
    assert [one["what"] for one in forest.schedule("h1")[:4]] == ["Fetch", "ReceiveFrom", "SendTo", "ReceiveFrom"]
    with pytest.raises(SchemeError, match="decides while it runs what to send"):
        api.forest("mlfabric_s", api.topology("star(hosts=5)")).messages()


@pytest.mark.parametrize(
    ("network", "told"),
    [("cloud", ""), ("spine_leaf(racks=2,hosts_per_rack=2,spines=1)", ", of which 12 MiB between racks")],
)
def test_bytes_between_racks_are_told_where_racks_are_known(network: str, told: str) -> None:
    forest = api.forest("ring", api.topology(network), size_bytes=4 * 2**20)
    assert forest.text(tabbed).split("wire bytes", 1)[1].splitlines()[0].partition("MiB")[2] == told
    assert (forest.facts["cost"]["cross_rack_bytes"] is None) == (not told)
