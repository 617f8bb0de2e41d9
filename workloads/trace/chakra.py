"""Files of MLCommons' Chakra: a record of metadata, then one of each node, each with its length before it.

The messages are described here with protobuf's descriptor API: names, numbers and types are facts of the schema (Chakra
0.0.4), of which only the fields that are used are declared. Attributes are read whatever integer type they have, and
written with the type that readers look for: ASTRA-sim reads one of another type as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, BinaryIO, NamedTuple

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import install
from testbed.base.printable import printable
from testbed.workloads.trace.graph import LONGEST_US, Collective, Kind, Node

VERSION = "1.1.1-chakra.0.0.4"
"""The version that a file of ours names."""
MOST_NODES = 2_000_000
"""The most nodes of a rank, unless a reader is told of more: 1.5 GB of memory."""
FIX_OF_MANY = "cut an iteration out; testbed trace show reads more with --nodes"
MOST_RECORD_BYTES = 4 << 20
"""The most bytes of a record: those of PyTorch's nodes, with their inputs and outputs, have some thousands."""
LONGEST_NAME = 100
"""Characters of a name that are kept."""
LARGEST_BYTES = 1 << 40
"""The largest collective or message: a TiB."""
LARGEST_INT32 = 2**31 - 1

TYPES = {
    "is_cpu_op": "bool_val",
    "comm_type": "int64_val",
    "comm_size": "int64_val",
    "comm_src": "int32_val",
    "comm_dst": "int32_val",
    "comm_tag": "int32_val",
    "comm_priority": "int32_val",
    "pg_name": "string_val",
    "tensor_size": "uint64_val",
}
"""The field of each attribute's value, by the attribute's name."""

_SCALARS = (
    ("double", 3, 1),
    ("float", 5, 2),
    ("int32", 7, 5),
    ("int64", 9, 3),
    ("uint32", 11, 13),
    ("uint64", 13, 4),
    ("sint32", 15, 17),
    ("sint64", 17, 18),
    ("fixed32", 19, 7),
    ("fixed64", 21, 6),
    ("sfixed32", 23, 15),
    ("sfixed64", 25, 16),
    ("bool", 27, 8),
    ("string", 29, 9),
)
"""Types of values: name, number of the field, and protobuf's number of the type."""
_UINT64, _STRING, _MESSAGE, _INT32 = 4, 9, 11, 5
_PACKAGE = "testbed.trace"


class Read(NamedTuple):
    """A file that was read; ``odd`` is what other readers may read otherwise, and how many nodes have it."""

    version: str
    about: dict[str, str]
    nodes: list[Node]
    odd: Counter[str]


@cache
def _messages() -> tuple[Any, Any]:
    """Return the classes of a file's metadata and nodes. Raises MissingToolError: protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise MissingToolError("Chakra's traces need protobuf", fix=install("chakra")) from None
    file = descriptor_pb2.FileDescriptorProto(name="testbed/trace.proto", package=_PACKAGE, syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, str]) -> Any:
        made = file.message_type.add(name=name)
        for field, number, kind, more in fields:
            label = 3 if more == "repeated" or more.startswith("*") else 1
            of_type = f".{_PACKAGE}.{more[1:]}" if more.startswith("*") else None
            made.field.add(name=field, number=number, type=kind, label=label, type_name=of_type)
        return made

    attribute = message("Attribute", ("name", 1, _STRING, ""))
    attribute.oneof_decl.add(name="value")
    for name, number, kind in _SCALARS:
        attribute.field.add(name=f"{name}_val", number=number, type=kind, label=1, oneof_index=0)
    message("Metadata", ("version", 1, _STRING, ""), ("attr", 2, _MESSAGE, "*Attribute"))
    message(
        "Node",
        ("id", 1, _UINT64, ""),
        ("name", 2, _STRING, ""),
        ("type", 3, _INT32, ""),  # an enumeration is a number on the wire, and one that is not known stays as it is
        ("ctrl_deps", 4, _UINT64, "repeated"),
        ("data_deps", 5, _UINT64, "repeated"),
        ("duration_micros", 7, _UINT64, ""),
        ("attr", 10, _MESSAGE, "*Attribute"),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    metadata, node = (pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in ("Metadata", "Node"))
    return message_factory.GetMessageClass(metadata), message_factory.GetMessageClass(node)


def _length(file: BinaryIO) -> int | None:
    """Read the length of a record; None at the end of the file, -1 where there is only a part of a length."""
    length = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None if shift == 0 else -1
        length |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            break
    return length


def read(file: BinaryIO, name: str, most_nodes: int = MOST_NODES) -> Read:
    """Read a file that is open; ``name`` names it in errors.

    Raises:
        SpecError: it is no trace, is cut off, or has what cannot be played.
        MissingToolError: protobuf is not installed.
    """
    from_metadata, from_node = _messages()
    from google.protobuf.message import DecodeError

    told, nodes, odd, number = None, list[Node](), Counter[str](), 0
    while (length := _length(file)) is not None:
        number += 1
        if length > MOST_RECORD_BYTES:
            raise SpecError(
                f"{name}: is no Chakra trace: record {number} has {length:,} bytes",
                fix="give a file that Chakra's tools read; unpack it, if it is packed",
            )
        content = file.read(max(0, length))
        if length < 0 or len(content) < length:
            what = "is cut off" if told is not None else "is no Chakra trace, or is cut off"
            raise SpecError(f"{name}: {what} in record {number}", fix="copy the file again, or name another one")
        try:
            if told is None:
                told = from_metadata.FromString(content)
                continue
            record = from_node.FromString(content)
        except (DecodeError, UnicodeDecodeError):
            raise SpecError(
                f"{name}: is no Chakra trace: record {number} cannot be decoded",
                fix="give a file that Chakra's tools read; unpack it, if it is packed",
            ) from None
        if len(nodes) == most_nodes:
            raise SpecError(f"{name}: has more than {most_nodes:,} nodes", fix=FIX_OF_MANY)
        values = {attribute.name: attribute for attribute in record.attr}
        fields = {
            key: (field, getattr(one, field)) for key, one in values.items() if (field := one.WhichOneof("value"))
        }
        waits = Waits(tuple(record.data_deps), tuple(record.ctrl_deps))
        nodes.append(node(Named(record.id, record.name, record.type), waits, record.duration_micros, fields, name, odd))
    if told is None:
        raise SpecError(f"{name}: is no Chakra trace: it is empty", fix="copy the file again")
    about = {one.name: printable(str(_value(one))) for one in told.attr}
    return Read(printable(told.version)[:LONGEST_NAME], about, nodes, odd)


def _value(attribute: Any) -> Any:
    field = attribute.WhichOneof("value")
    return None if field is None else getattr(attribute, field)


class Named(NamedTuple):
    """A node's id, name, and the number of its type."""

    id: int
    name: str
    type: int


class Waits(NamedTuple):
    """Ids of the nodes that a node waits for: those whose results it needs, and others."""

    after: tuple[int, ...]
    control: tuple[int, ...]


def node(
    named: Named,
    waits: Waits,
    duration_us: int,
    attributes: Mapping[str, tuple[str, Any]],
    file: str,
    odd: Counter[str],
) -> Node:
    """Make a node of a record, and count what is odd about it.

    Args:
        attributes: the field of the value and the value, by the attribute's name.
        file: names the file in errors.

    Raises:
        SpecError: it cannot be played.
    """
    where = f"{file}: node {named.id}"
    try:
        kind = Kind(named.type)
    except ValueError:
        raise SpecError(f"{where} has the type {named.type}", fix=_one_of(Kind)) from None
    values = {key: value for key, (_, value) in attributes.items()}
    for key, (field, _) in attributes.items():
        if TYPES.get(key, field) != field:
            odd[f"{key} is {field[:-4]}, and readers look for {TYPES[key][:-4]}"] += 1
    if duration_us > LONGEST_US:
        raise SpecError(f"{where} takes {duration_us:,} us, and a day is the most", fix="correct duration_micros")
    numbers = {key: _number(values, key, where) for key in TYPES if key not in ("is_cpu_op", "pg_name", "tensor_size")}
    made = Node(
        id=named.id,
        name=printable(named.name[:LONGEST_NAME]),
        kind=kind,
        after=waits.after,
        control=waits.control,
        duration_us=duration_us,
        group=printable(str(values.get("pg_name", ""))[:LONGEST_NAME]),
        priority=numbers["comm_priority"] or 0,
        stream=(bool(values.get("is_cpu_op", True)), _number(values, "stream", where) or 0),
    )
    return made if made.computes else _communicates(made, numbers, _number(values, "root_rank", where), where)


def _communicates(node: Node, numbers: Mapping[str, int | None], root: int | None, where: str) -> Node:
    """Fill in what a node of a message or of a collective says of it."""
    collective = None
    if node.kind == Kind.COMM_COLL:
        collective = collective_of(numbers["comm_type"], where)
    else:
        key = "comm_dst" if node.kind == Kind.COMM_SEND else "comm_src"
        peer = numbers[key]
        if peer is None or peer < 0:
            raise SpecError(f"{where} has no {key}", fix="name the rank that it sends to, or receives from")
        tag = numbers["comm_tag"] or 0
        if not 0 <= tag <= LARGEST_INT32:
            raise SpecError(f"{where} has the tag {tag}", fix=f"use tags from 0 to {LARGEST_INT32}")
        node = node._replace(peer=peer, tag=tag)
    size = numbers["comm_size"] or 0
    if collective != Collective.BARRIER and not 0 < size <= LARGEST_BYTES:
        told = "no comm_size" if numbers["comm_size"] is None else f"comm_size {size}"
        raise SpecError(f"{where} has {told}", fix=f"give it its bytes, from 1 to {LARGEST_BYTES:,}")
    return node._replace(bytes=max(0, size), collective=collective, root=max(0, root or 0))


def collective_of(number: int | None, where: str) -> Collective:
    """Return the collective of this number.

    Raises:
        SpecError: there is none, or ranks of a script cannot ask for it with one array.
    """
    if number is None:
        raise SpecError(f"{where} has no comm_type", fix=_one_of(Collective))
    try:
        found = Collective(number)
    except ValueError:
        raise SpecError(f"{where} has comm_type {number}", fix=_one_of(Collective)) from None
    return found


def _one_of(numbers: type[Kind] | type[Collective]) -> str:
    return f"use {', '.join(f'{one.value} ({one.name})' for one in numbers)}"


def _number(values: Mapping[str, Any], key: str, where: str) -> int | None:
    value = values.get(key)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise SpecError(f"{where} has {key} {str(value)[:LONGEST_NAME]!r}", fix="write it as a whole number")


def write(file: BinaryIO, rank: int, nodes: Iterable[Node], about: Mapping[str, str]) -> None:
    """Write the file of a rank; ``about`` are attributes of its metadata.

    Raises:
        MissingToolError: protobuf is not installed.
    """
    of_metadata, of_node = _messages()
    metadata = of_metadata(version=VERSION)
    for key, value in about.items():
        metadata.attr.add(name=key, string_val=value)
    _put(file, metadata)
    for node in nodes:
        record = of_node(id=node.id, name=node.name, type=node.kind, duration_micros=node.duration_us)
        record.data_deps.extend(node.after)
        record.ctrl_deps.extend(node.control)
        record.attr.add(name="is_cpu_op", bool_val=node.stream[0])
        for key, value in _attributes(node, rank).items():
            record.attr.add(name=key, **{TYPES[key]: value})
        _put(file, record)


def _attributes(node: Node, rank: int) -> dict[str, Any]:
    if node.computes:
        return {}
    found: dict[str, Any] = {"comm_size": node.bytes, "comm_priority": node.priority}
    if node.collective is not None:
        return {**found, "comm_type": int(node.collective), **({"pg_name": node.group} if node.group else {})}
    src, dst = node.ends(rank)
    return {**found, "comm_src": src, "comm_dst": dst, "comm_tag": node.tag}


def _put(file: BinaryIO, record: Any) -> None:
    content = record.SerializeToString()
    length, left = bytearray(), len(content)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    file.write(bytes((*length, left)) + content)
