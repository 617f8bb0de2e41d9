"""PARAM's basic traces: a JSON list with an entry for each collective, in the order in which a rank asked for them.

Entries follow each other, except that ``isend`` and ``irecv`` hold nothing back until a ``wait`` for their request.
Sizes are in elements. Start times are not used: the time between two of them is computation and communication together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.base.errors import SpecError
from testbed.base.printable import printable
from testbed.workloads.trace.chakra import LARGEST_BYTES, LONGEST_NAME
from testbed.workloads.trace.graph import Collective, Groups, Kind, Node, are_ranks

NAMES = {
    "allreduce": Collective.ALL_REDUCE,
    "all_reduce": Collective.ALL_REDUCE,
    "reduce": Collective.REDUCE,
    "broadcast": Collective.BROADCAST,
    "allgather": Collective.ALL_GATHER,
    "all_gather": Collective.ALL_GATHER,
    "_allgather_base": Collective.ALL_GATHER,
    "all_gather_base": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "_reduce_scatter_base": Collective.REDUCE_SCATTER,
    "reduce_scatter_base": Collective.REDUCE_SCATTER,
    "gather": Collective.GATHER,
    "scatter": Collective.SCATTER,
    "all_to_all": Collective.ALL_TO_ALL,
    "all_to_allv": Collective.ALL_TO_ALL,
    "barrier": Collective.BARRIER,
}
"""Collectives, by the names that ``record_param_comms`` and PARAM have for them."""
ELEMENT_BYTES = {
    "double": 8,
    "long": 8,
    "int": 4,
    "float": 4,
    "half": 2,
    "bfloat16": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
}
ELEMENT_BYTES |= {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "int8": 1, "uint8": 1}
MESSAGES = {"send": Kind.COMM_SEND, "isend": Kind.COMM_SEND, "recv": Kind.COMM_RECV, "irecv": Kind.COMM_RECV}
PEERS = {Kind.COMM_SEND: "dst_rank", Kind.COMM_RECV: "src_rank"}
NO_TIME = "operators that compute, without a time"
_FIX = "give it comms, in_msg_size (elements) and dtype, as PARAM's basic traces have them"


def size_bytes(elements: object, element_type: object) -> int | None:
    """Return the bytes of so many elements; None if these are no sizes of an array that is played."""
    element = ELEMENT_BYTES.get(str(element_type).lower())
    if type(elements) is not int or element is None or not 0 < elements * element <= LARGEST_BYTES:
        return None
    return elements * element


def is_trace(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether entries are PARAM's, and not nodes of a host trace."""
    return any("comms" in record for record in records)


def read(records: Sequence[Mapping[str, Any]], name: str, odd: Counter[str]) -> tuple[list[Node], Groups]:
    """Make nodes of the entries of a rank; ``name`` names the file in errors.

    Raises:
        SpecError: an entry cannot be played.
    """
    nodes: list[Node] = []
    groups: dict[str, tuple[int, ...]] = {}
    before: tuple[int, ...] = ()  # what the next entry waits for
    open_requests: dict[str, int] = {}
    for number, record in enumerate(records):
        called, where = str(record.get("comms", "")).lower(), f"{name}: entry {number}"
        if not called:
            odd[NO_TIME] += 1
        elif called == "init":
            groups |= _group(record)
        elif called == "wait":
            waited = open_requests.pop(_request(record), None)
            before += () if waited is None or waited in before else (waited,)
        else:
            node = _node(record, number, called, where)._replace(control=before)
            nodes.append(node)
            if called in ("isend", "irecv"):
                open_requests[_request(record)] = number
            else:
                before = (number,)
        odd["entries with a start time, which is not used"] += "startTime_ns" in record
    return nodes, groups


def _group(record: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    ranks = record.get("global_ranks")
    return {_named(record): tuple(ranks)} if are_ranks(ranks) and "pg_id" in record else {}


def _named(record: Mapping[str, Any]) -> str:
    return printable(str(record.get("pg_id", "")))[:LONGEST_NAME]


def _request(record: Mapping[str, Any]) -> str:
    return str(record.get("req"))[:LONGEST_NAME]


def _node(record: Mapping[str, Any], number: int, called: str, where: str) -> Node:
    kind, collective = MESSAGES.get(called, Kind.COMM_COLL), NAMES.get(called)
    if kind == Kind.COMM_COLL and collective is None:
        raise SpecError(f"{where} is {called!r:.60}, which is not played", fix="cut it out of the trace")
    node = Node(number, called, kind, collective=collective, group=_named(record))
    if kind != Kind.COMM_COLL:
        peer = record.get(PEERS[kind])
        if type(peer) is not int or peer < 0:
            raise SpecError(
                f"{where} ({called}) has no {PEERS[kind]}", fix="name the rank that it sends to, or receives from"
            )
        node = node._replace(peer=peer, group="")
    if collective == Collective.BARRIER:
        return node
    nbytes = size_bytes(record.get("in_msg_size"), record.get("dtype"))
    if nbytes is None:
        raise SpecError(f"{where} ({called}) has no in_msg_size and dtype that tell its bytes", fix=_FIX)
    root = record.get("root")
    return node._replace(bytes=nbytes, root=root if type(root) is int and root >= 0 else 0)
