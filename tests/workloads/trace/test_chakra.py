"""Files of Chakra's: what is written, what is read, and what is refused."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as some

import testbed
from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import install
from testbed.topologies.build import build
from testbed.workloads.trace import chakra, chakra_json
from testbed.workloads.trace.graph import Collective, Kind, Node
from testbed.workloads.trace.transfers import transfers

pytest.importorskip("google.protobuf")

NODES = [
    Node(1, "forward", Kind.COMP, duration_us=300_000),
    Node(2, "sum", Kind.COMM_COLL, (1,), bytes=12_500_000, collective=Collective.ALL_REDUCE, group="0", priority=3),
    Node(3, "out", Kind.COMM_SEND, (1,), (2,), bytes=4096, peer=1, tag=7),
    Node(4, "in", Kind.COMM_RECV, bytes=4096, peer=1, tag=8),
]


def _file(nodes: list[Node]) -> bytes:
    file = io.BytesIO()
    chakra.write(file, 0, nodes, {"trial": "ring-b16"})
    return file.getvalue()


def _record(kind: Kind, attributes: Mapping[str, Mapping[str, Any]], **fields: Any) -> bytes:
    """A file with one node of another writer's."""
    metadata, node = chakra._messages()
    file = io.BytesIO()
    chakra._put(file, metadata(version="1.0.0"))
    record = node(id=57, name="x", type=kind, **fields)
    for name, value in attributes.items():
        record.attr.add(name=name, **value)
    chakra._put(file, record)
    return file.getvalue()


def test_what_is_written_is_read() -> None:
    read = chakra.read(io.BytesIO(_file(NODES)), "x.0.et")
    assert (read.version, read.about, read.nodes, read.odd) == (chakra.VERSION, {"trial": "ring-b16"}, NODES, {})


def test_mlcommons_own_decoder_reads_what_is_written_and_writes_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``mlc-chakra`` is installed for tests alone, without the packages that it names."""
    schema = pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    protolib = import_module("chakra.src.third_party.utils.protolib")
    jsonizer = import_module("chakra.src.jsonizer.jsonizer")
    (path := tmp_path / "x.0.et").write_bytes(_file(NODES))
    records = [schema.GlobalMetadata(), *(schema.Node() for _ in NODES)]
    with path.open("rb") as file:
        assert all(protolib.decodeMessage(file, record) for record in records)
        assert not protolib.decodeMessage(file, schema.Node())
    about, *nodes = records
    assert (about.version, about.attr[0].string_val) == (chakra.VERSION, "ring-b16")
    for ours, theirs in zip(NODES, nodes, strict=True):
        values = {one.name: getattr(one, one.WhichOneof("value")) for one in theirs.attr}
        assert (theirs.id, theirs.name, theirs.type, theirs.duration_micros) == (*ours[:3], ours.duration_us)
        assert (tuple(theirs.data_deps), tuple(theirs.ctrl_deps)) == (ours.after, ours.control)
        assert values.get("comm_size", 0) == ours.bytes
        assert values["is_cpu_op"] is True
    with (again := tmp_path / "y.0.et").open("wb") as file:
        for record in records:
            protolib.encodeMessage(file, record)
    assert chakra.read(again.open("rb"), "y.0.et").nodes == NODES
    monkeypatch.setattr("sys.argv", ["", "--input_filename", str(path), "--output_filename", str(tmp_path / "x.json")])
    jsonizer.main()
    assert chakra_json.read((tmp_path / "x.json").read_bytes(), "x.json").nodes == NODES


@pytest.mark.parametrize(
    ("scheme", "network"),
    [("ring", "star(hosts=4)"), ("switchml", "star(hosts=3,ina=all)"), ("hierarchical", "fat_tree(k=4)")],
)
def test_mlcommons_own_tools_read_exports(
    scheme: str, network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its visualizer imports ``graphviz`` for pictures, and not for the GraphML that it writes here."""
    pytest.importorskip("chakra.schema.protobuf.et_def_pb2")
    monkeypatch.setitem(sys.modules, "graphviz", ModuleType("graphviz"))
    tools = {"json": "jsonizer", "graphml": "visualizer"}
    _, ranks = transfers(testbed.forest(scheme, network).model, 2**16, build(network, rate_bps=10**9))
    for rank, nodes in ranks.items():
        with (path := tmp_path / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, nodes, {"scheme": scheme})
        for ending, tool in tools.items():
            out = str(tmp_path / f"x.{rank}.{ending}")
            monkeypatch.setattr("sys.argv", ["", "--input_filename", str(path), "--output_filename", out])
            import_module(f"chakra.src.{tool}.{tool}").main()
        assert chakra_json.read((tmp_path / f"x.{rank}.json").read_bytes(), "x.json").nodes == nodes
        seen = nx.read_graphml(tmp_path / f"x.{rank}.graphml", node_type=int)
        assert dict(seen.nodes(data="label")) == {node.id: node.name for node in nodes}
        assert {(before, after, how) for before, after, how in seen.edges(data="dependency")} == {
            (before, node.id, how)
            for node in nodes
            for how, all_before in (("data", node.after), ("control", node.control))
            for before in all_before
        }


def test_every_attribute_has_the_type_that_readers_look_for() -> None:
    """ASTRA-sim's feeder reads an attribute of another type as 0."""
    _, of_node = chakra._messages()
    wanted = {"is_cpu_op": "bool_val", "comm_type": "int64_val", "comm_size": "int64_val", "pg_name": "string_val"}
    wanted |= dict.fromkeys(("comm_src", "comm_dst", "comm_tag", "comm_priority"), "int32_val")
    file, found = io.BytesIO(_file(NODES)), {}
    while length := chakra._length(file):
        record = of_node.FromString(file.read(length)) if file.tell() > 40 else file.read(length)
        found |= {one.name: one.WhichOneof("value") for one in getattr(record, "attr", ())}
    assert found == wanted


def test_a_size_of_another_type_is_read_and_said() -> None:
    content = _record(Kind.COMM_COLL, {"comm_type": {"int64_val": 0}, "comm_size": {"uint64_val": 64}})
    read = chakra.read(io.BytesIO(content), "x.0.et")
    assert read.nodes[0].bytes == 64
    assert read.odd == {"comm_size is uint64, and readers look for int64": 1}


SIZE = {"comm_size": {"int64_val": 64}}
SUM = {"comm_type": {"int64_val": 0}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff" * 9 + b"\x01", "x.0.et: is no Chakra trace: record 1 has 18,446,744,073,709,551,615 bytes"),
        (b"\xf3\xeb\xd4\x93\x07abc", "x.0.et: is no Chakra trace: record 1 has 1,920,284,147 bytes"),
        (b"hello, this is text. " * 9, "x.0.et: is no Chakra trace: record 1 cannot be decoded"),
        (b"", "x.0.et: is no Chakra trace: it is empty"),
        (_file(NODES)[:-3], "x.0.et: is cut off in record 5"),
        (b"no trace at all", "x.0.et: is no Chakra trace, or is cut off in record 1"),
        (_record(Kind.COMM_COLL, SUM), "x.0.et: node 57 has no comm_size"),
        (_record(Kind.COMM_COLL, SUM | {"comm_size": {"int64_val": 0}}), "x.0.et: node 57 has comm_size 0"),
        (_record(Kind.COMM_COLL, SIZE), "x.0.et: node 57 has no comm_type"),
        (_record(Kind.COMM_COLL, SIZE | {"comm_type": {"int64_val": 77}}), "x.0.et: node 57 has comm_type 77"),
        (_record(Kind.COMM_SEND, SIZE), "x.0.et: node 57 has no comm_dst"),
        (
            _record(Kind.COMP, {}, duration_micros=10**12),
            "x.0.et: node 57 takes 1,000,000,000,000 us, and a day is the most",
        ),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        chakra.read(io.BytesIO(content), "x.0.et")
    assert caught.value.problem == told


def test_more_nodes_than_are_asked_for_are_refused() -> None:
    with pytest.raises(SpecError, match="more than 3 nodes"):
        chakra.read(io.BytesIO(_file(NODES)), "x.0.et", most_nodes=3)


@given(some.binary(max_size=200), some.integers(0, 200))
def test_a_damaged_file_is_refused_or_read(junk: bytes, at: int) -> None:
    content = _file(NODES)
    damaged = content[: at % len(content)] + junk + content[at % len(content) + len(junk) :]
    try:
        chakra.read(io.BytesIO(damaged), "x.0.et")
    except SpecError:
        return


def test_without_protobuf_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    chakra._messages.cache_clear()  # it keeps no failure
    with pytest.raises(MissingToolError) as caught:
        chakra.read(io.BytesIO(b""), "x.0.et")
    assert caught.value.fix == install("chakra")
    assert "protobuf" in install("chakra")
