"""Networks in files: what is written is what is read, for every family; what is refused before a file is parsed."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies import formats
from testbed.topologies.build import build, comes_with_us, families, parameters_named
from testbed.topologies.load import DATA, file_of, is_in_file, no_code
from testbed.topologies.model import Topology

from ..test_families import SMALL

ENDINGS = {"graphml": ".graphml", "clab": ".clab.yml", "infragraph": ".json"}
OTHERS = [
    "dragonfly(a=2,g=3,h=1)",
    "star(hosts=3,ina=all)",
    "spine_leaf(racks=3,hosts_per_rack=2,spines=2,ina=[leaf1])",
]


def read_back(text: str, ending: str) -> Topology:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"net{ending}"
        path.write_text(text)
        return build(str(path), rate_bps=7, delay_s=7.0)


@given(
    st.sampled_from(SMALL + OTHERS),
    st.sampled_from(formats.FORMATS),
    st.lists(st.tuples(st.integers(1, 10**13), st.integers(0, 10**10)), min_size=1, max_size=5),
)
def test_what_is_written_is_what_is_read(expression: str, form: str, physical: list[tuple[int, int]]) -> None:
    topology = build(expression, rate_bps=10**8)
    links = tuple(
        replace(link, rate_bps=rate_bps, delay_s=delay_ns / 1e9)
        for i, link in enumerate(topology.links)
        for rate_bps, delay_ns in [physical[i % len(physical)]]
    )
    topology = replace(topology, links=links)
    made = read_back(formats.write(topology, form), ENDINGS[form])
    assert (made.nodes, made.links) == (topology.nodes, topology.links)
    assert all("left out" not in note or "inside" in note for note in made.notes)
    assert made.paths(0, 0) == topology.paths(0, 0)


def test_every_family_is_written_or_refused() -> None:
    written = {expression.partition("(")[0] for expression in SMALL + OTHERS}
    assert families().keys() - written == {"patch_panel"}
    with pytest.raises(TopologyError, match="has patch panels, which clab cannot say"):
        formats.write(build("patch_panel(servers=4,degree=2)", rate_bps=10**8), "clab")


def test_switches_that_add_still_do() -> None:
    made = read_back(formats.write(build("star(hosts=3,ina=all)", rate_bps=10**8), "graphml"), ".graphml")
    assert len(made.paths(0, 3)[0].links) == len(made.paths(3, 2)[0].links) == 1


def test_names_of_files() -> None:
    assert [file_of(f"a/net{ending}") for ending in DATA] == [f"a/net{ending}" for ending in DATA]
    assert (file_of("star"), file_of("./mine.py:net"), file_of("x.py:net.json")) == (None, "./mine.py", "x.py")
    assert not is_in_file("net.json")
    assert not comes_with_us("net.json(hosts=all)")
    assert [one.name for one in parameters_named("net.gml")] == ["hosts", "rates", "delays", "routing"]


def test_a_file_is_not_opened_where_nothing_that_a_run_names_is(tmp_path: Path) -> None:
    with no_code("a report", "none"), pytest.raises(TopologyError, match="which a report does not run"):
        build(str(tmp_path / "net.gml"), rate_bps=1)


def test_what_is_no_file_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopologyError, match="there is no file"):
        build(str(tmp_path / "net.gml"), rate_bps=1)
    monkeypatch.setattr(formats, "MOST_BYTES", 10)
    (tmp_path / "net.gml").write_text("x" * 11)
    with pytest.raises(TopologyError, match="has more than 10 bytes"):
        build(str(tmp_path / "net.gml"), rate_bps=1)
