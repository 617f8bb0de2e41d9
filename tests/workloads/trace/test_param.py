"""PARAM's basic traces, written by hand: its replay tools are in no package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.trace import pytorch
from testbed.workloads.trace.graph import Collective, Kind

FLOATS = {"dtype": "Float"}
TRACE: list[dict[str, Any]] = [
    {"comms": "init", "pg_id": 1, "global_ranks": [0, 1]},
    {"comms": "all_reduce", "in_msg_size": 100, "out_msg_size": 100, "pg_id": 1, "startTime_ns": 5, **FLOATS},
    {"compute": "gemm", "mm_dim": 10},
    {"comms": "isend", "in_msg_size": 8, "dst_rank": 1, "req": [3, True], **FLOATS},
    {"comms": "irecv", "in_msg_size": 4, "src_rank": 1, "req": [4, True], **FLOATS},
    {"comms": "broadcast", "in_msg_size": 2, "root": 1, "dtype": "int64"},
    {"comms": "wait", "req": [4, True]},
    {"comms": "barrier"},
    {"comms": "scatter", "in_msg_size": 6, "root": 1, **FLOATS},
]


def test_entries_follow_each_other_and_messages_are_awaited_where_the_rank_waits() -> None:
    read, groups = pytorch.read(json.dumps(TRACE).encode(), "x.0.json")
    assert [(node.id, node.kind.name, node.bytes, node.control) for node in read.nodes] == [
        (1, "COMM_COLL", 400, ()),
        (3, "COMM_SEND", 32, (1,)),
        (4, "COMM_RECV", 16, (1,)),
        (5, "COMM_COLL", 16, (1,)),
        (7, "COMM_COLL", 0, (5, 4)),
        (8, "COMM_COLL", 24, (7,)),
    ]
    assert [node.peer for node in read.nodes if node.kind != Kind.COMM_COLL] == [1, 1]
    assert [(node.collective, node.group, node.root) for node in read.nodes if node.collective is not None] == [
        (Collective.ALL_REDUCE, "1", 0),
        (Collective.BROADCAST, "", 1),
        (Collective.BARRIER, "", 0),
        (Collective.SCATTER, "", 1),
    ]
    assert groups == {"1": (0, 1)}
    assert +read.odd == {
        "operators that compute, without a time": 1,
        "entries with a start time, which is not used": 1,
    }


def test_a_list_of_what_communication_libraries_report_is_read_as_a_host_trace() -> None:
    attributes = {"collective_name": "allreduce", "in_msg_nelems": 6, "dtype": "Half", "pg_name": "2"}
    records = []
    for number, (called, values) in enumerate(
        {"allreduce": [9, "2", 1, "allreduce"], "gather": [9, "2", 1, "gather"]}.items()
    ):
        told = {**attributes, "collective_name": called}
        attrs = [{"name": name, "value": value} for name, value in told.items()]
        records.append({"id": number, "name": "record_param_comms", "attrs": attrs, "inputs": {"values": values}})
    records.append({**records[1], "id": 2, "inputs": {"values": []}})
    read, _ = pytorch.read(json.dumps(records).encode(), "x.0.json")
    assert [(node.collective, node.bytes, node.group, node.root) for node in read.nodes] == [
        (Collective.ALL_REDUCE, 12, "2", 0),
        (Collective.GATHER, 12, "2", 1),
        (Collective.GATHER, 12, "2", 0),
    ]
    assert read.odd == {"collectives whose root the trace does not tell, taken to be rank 0 of its group": 1}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"comms": "gatherv"}, "x.0.json: entry 0 is 'gatherv', which is not played"),
        ({"comms": "all_reduce", **FLOATS}, "x.0.json: entry 0 (all_reduce) has no in_msg_size and dtype"),
        ({"comms": "all_reduce", "in_msg_size": 3}, "x.0.json: entry 0 (all_reduce) has no in_msg_size and dtype"),
        ({"comms": "send", "in_msg_size": 3, **FLOATS}, "x.0.json: entry 0 (send) has no dst_rank"),
        ({"comms": "recv", "in_msg_size": 3, "dst_rank": 1}, "x.0.json: entry 0 (recv) has no src_rank"),
    ],
)
def test_what_cannot_be_played_is_refused(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        pytorch.read(json.dumps([entry]).encode(), "x.0.json")
    assert caught.value.problem.startswith(told)
