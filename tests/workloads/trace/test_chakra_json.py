"""Chakra's traces as JSON: the shape in which ``chakra_jsonizer`` writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.trace import chakra_json
from testbed.workloads.trace.graph import Collective, Kind, Node

METADATA = {"version": "1.0.0", "attr": [{"name": "rank", "stringVal": "0"}, {"name": "sizes", "uint64List": {}}]}
COMPUTES = {"id": "7", "name": "a", "type": "COMP_NODE", "durationMicros": "300", "ctrlDeps": ["4"]}
SUM = {
    "id": "8",
    "name": "sum\n}{",
    "type": "COMM_COLL_NODE",
    "dataDeps": ["7"],
    "attr": [
        {"name": "is_cpu_op", "boolVal": False},
        {"name": "comm_size", "uint64Val": "12500000"},
        {"name": "comm_type", "int64Val": "0"},
        {"name": "comm_priority", "int32Val": -3},
        {"name": "pg_name", "stringVal": "1"},
    ],
}


def _content(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, indent=2) for record in (METADATA, *records)).encode()


def test_objects_that_follow_each_other_are_nodes() -> None:
    content = _content(COMPUTES, SUM)
    assert chakra_json.is_trace(content)
    read = chakra_json.read(content, "x.0.json")
    assert (read.version, read.about) == ("1.0.0", {"rank": "0"})
    assert read.nodes == [
        Node(7, "a", Kind.COMP, control=(4,), duration_us=300),
        Node(
            *(8, "sum\n}{", Kind.COMM_COLL, (7,)),
            bytes=12_500_000,
            collective=Collective.ALL_REDUCE,
            group="1",
            priority=-3,
            stream=(False, 0),
        ),
    ]
    assert read.odd == {"comm_size is uint64, and readers look for int64": 1}


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"id": "x"}, "x.0.json: record 2 has 'x' in place of a whole number"),
        ({"id": "-1"}, "x.0.json: record 2 has '-1' in place of a whole number"),
        ({"id": "9" * 30}, "x.0.json: record 2 has '9"),
        ({"id": "1", "type": "PUT_NODE"}, "x.0.json: node 1 has the type 0"),
        ({"id": "1", "type": 4, "dataDeps": "7"}, "x.0.json: record 2 depends on '7'"),
        ({"id": "1", "type": 4, "attr": [{"int64Val": "7"}]}, "x.0.json: record 2 has an attribute without a name"),
        ({"id": "1", "type": "COMM_COLL_NODE"}, "x.0.json: node 1 has no comm_type"),
        ({"id": "1", "type": 4, "durationMicros": "99999999999999"}, "x.0.json: node 1 takes 99,999,999,999,999 us"),
    ],
)
def test_what_cannot_be_played_is_refused(record: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        chakra_json.read(_content(record), "x.0.json")
    assert caught.value.problem.startswith(told)


def test_what_is_no_json_and_what_is_too_much_is_refused() -> None:
    with pytest.raises(SpecError, match=r"x: is no trace: not JSON that is read"):
        chakra_json.read(b"{\n}{", "x")
    with pytest.raises(SpecError, match=r"x: has more than 1 nodes"):
        chakra_json.read(_content(COMPUTES, SUM), "x", 1)
