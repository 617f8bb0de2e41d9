"""GOAL schedules, as LogGOPSim and ATLAHS take them: one text for all ranks, with sends, receives and computation.

An operation ``requires`` others that must have ended, or ``irequires`` others that must have begun. An operation
begins as soon as what it requires has ended, so the second word asks for all that the other operation requires.
Computation is in nanoseconds. A schedule has no collectives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from testbed.base.errors import SpecError
from testbed.base.printable import printable
from testbed.workloads.trace.chakra import FIX_OF_MANY, LARGEST_BYTES, LARGEST_INT32, LONGEST_NAME, MOST_NODES, Read
from testbed.workloads.trace.graph import LONGEST_US, Kind, Node

_LABEL = r"[A-Za-z_]\w{0,99}"
_PINNED = r"(?: cpu (?P<cpu>\d{1,9}))?(?: nic \d{1,9})?"
_OPERATION = re.compile(
    rf"(?:(?P<label>{_LABEL}): ?)?(?:calc (?P<ns>\d{{1,20}})|(?P<what>send|recv) (?P<bytes>\d{{1,20}})b"
    rf" (?P<way>to|from) (?P<peer>\d{{1,9}})(?: tag (?P<tag>\d{{1,20}}))?){_PINNED}"
)
_EDGE = re.compile(rf"(?P<later>{_LABEL}) (?P<word>i?requires) (?P<before>{_LABEL})")
_RANK = re.compile(r"rank (\d{1,9}) ?\{")
_COUNT = re.compile(r"num_ranks (\d{1,9})")
_COMMENT = re.compile(r"(#|//).*")
_FIX = "give a text with num_ranks, and for each rank its send, recv, calc and requires, one a line"
_WAYS = {"send": ("to", Kind.COMM_SEND), "recv": ("from", Kind.COMM_RECV)}


def read(content: bytes, name: str, rank: int, most_nodes: int = MOST_NODES) -> Read:
    """Read the operations of a rank; ``name`` names the file in errors.

    Raises:
        SpecError: it is no schedule, does not have the rank, or has what cannot be played.
    """
    nodes: list[Node] = []
    ids: dict[str, int] = {}
    edges: list[tuple[int, str, str, str]] = []
    lines, ranks = _lines(content, name, rank)
    for number, line in lines:
        if edge := _EDGE.fullmatch(line):
            edges.append((number, edge["later"], edge["word"], edge["before"]))
            continue
        where = f"{name}: line {number}"
        if len(nodes) == most_nodes:
            raise SpecError(f"{name}: has more than {most_nodes:,} nodes", fix=FIX_OF_MANY)
        operation = _OPERATION.fullmatch(line)
        if operation is None:
            raise SpecError(f"{where}: {printable(line[:60])} is no send, recv, calc or requires", fix=_FIX)
        node = _node(operation, len(nodes) + 1, where)
        if node.name in ids:
            raise SpecError(f"{where}: {node.name} is there twice", fix="give each operation a label of its own")
        nodes.append(node)
        ids |= {node.name: node.id} if node.name else {}
    return Read("GOAL", {"ranks": str(ranks)}, _joined(nodes, ids, edges, name), Counter())


def _lines(content: bytes, name: str, rank: int) -> tuple[list[tuple[int, str]], int]:
    """Return the lines of a rank, with their numbers, and the number of ranks."""
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise SpecError(f"{name}: is no GOAL schedule: it is not plain text", fix=_FIX) from None
    ranks, inside = 0, None
    found: list[tuple[int, str]] = []
    for number, raw in enumerate(lines, 1):
        line = " ".join(_COMMENT.sub("", raw).split())
        if not line:
            continue
        if not ranks:
            match = _COUNT.fullmatch(line)
            ranks = int(match[1]) if match else 0
            if not ranks:
                raise SpecError(f"{name}: is no GOAL schedule: line {number} is not num_ranks and a number", fix=_FIX)
            if rank >= ranks:
                raise SpecError(f"{name}: there is no rank {rank} of {ranks}", fix="take as many hosts as it has ranks")
        elif inside is None:
            match = _RANK.fullmatch(line)
            if match is None or int(match[1]) >= ranks:
                problem = f"{name}: line {number}: {line:.60} begins none of {ranks} ranks"
                raise SpecError(problem, fix="write rank 0 {, and so on")
            inside = int(match[1])
        elif line == "}":
            inside = None
        elif inside == rank:
            found.append((number, line))
    if inside is not None or not ranks:
        raise SpecError(f"{name}: is no GOAL schedule: it is cut off", fix="copy the file again")
    return found, ranks


def _node(operation: re.Match[str], number: int, where: str) -> Node:
    stream, label = (True, int(operation["cpu"] or 0)), operation["label"] or ""
    if operation["ns"] is not None:
        took_us = round(int(operation["ns"]) / 1000)
        if took_us > LONGEST_US:
            raise SpecError(f"{where}: {operation['ns']} ns, and a day is the most", fix="correct calc")
        return Node(number, label, Kind.COMP, duration_us=took_us, stream=stream)
    way, kind = _WAYS[operation["what"]]
    size, tag = int(operation["bytes"]), int(operation["tag"] or 0)
    if operation["way"] != way:
        raise SpecError(f"{where}: {operation['what']} {operation['way']}", fix="write send .. to, and recv .. from")
    if not 0 < size <= LARGEST_BYTES:
        raise SpecError(f"{where}: a message of {size} bytes", fix=f"give it 1 to {LARGEST_BYTES:,} bytes")
    if tag > LARGEST_INT32:
        raise SpecError(f"{where}: the tag {tag}", fix=f"use tags from 0 to {LARGEST_INT32}")
    return Node(number, label, kind, bytes=size, peer=int(operation["peer"]), tag=tag, stream=stream)


def _joined(
    nodes: Sequence[Node], ids: Mapping[str, int], edges: Sequence[tuple[int, str, str, str]], name: str
) -> list[Node]:
    """Give nodes what they wait for."""
    waits: dict[int, set[int]] = {node.id: set() for node in nodes}
    begun: dict[int, set[int]] = {}
    for number, later, word, before in edges:
        for label in (later, before):
            if label not in ids:
                raise SpecError(f"{name}: line {number}: there is no {label}", fix="correct the label")
        (waits if word == "requires" else begun).setdefault(ids[later], set()).add(ids[before])
    for number in begun:
        # What must have begun must have what it waits for; it may itself wait for others to begin.
        seen, left = set[int](), [*begun[number]]
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left += begun.get(at, ())
        waits[number] |= set[int]().union(*(waits[at] for at in seen))
    return [
        node._replace(after=tuple(sorted(waits[node.id])), name=node.name[:LONGEST_NAME] or f"line {node.id}")
        for node in nodes
    ]


def write(file: BinaryIO, ranks: Mapping[int, Sequence[Node]], about: Mapping[str, str]) -> None:
    """Write the sends, receives and computation of all ranks; ``about`` becomes comments."""
    lines = [f"// {key}: {value}" for key, value in about.items()]
    lines.append(f"num_ranks {len(ranks)}")
    for rank, nodes in ranks.items():
        lines.append(f"rank {rank} {{")
        for node in nodes:
            if node.computes:
                told = f"calc {1000 * node.duration_us}"
            else:
                what, way = ("send", "to") if node.kind == Kind.COMM_SEND else ("recv", "from")
                told = f"{what} {node.bytes}b {way} {node.peer} tag {node.tag}"
            lines.append(f"l{node.id}: {told}")
        lines += [f"l{node.id} requires l{before}" for node in nodes for before in node.before]
        lines.append("}")
    file.write("\n".join((*lines, "")).encode())
