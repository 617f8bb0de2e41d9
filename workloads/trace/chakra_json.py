"""Chakra's traces as JSON, as its ``chakra_jsonizer`` writes them: an object of metadata, then one of each node.

The objects follow each other without a comma. Numbers of 64 bits are text, as protobuf's JSON has them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from testbed.base.bounded_json import parse_json
from testbed.base.errors import SpecError
from testbed.base.printable import printable
from testbed.workloads.trace.chakra import FIX_OF_MANY, LONGEST_NAME, MOST_NODES, Named, Read, Waits, node
from testbed.workloads.trace.graph import Kind, Node

BETWEEN = b"\n}{"
"""The end of an object and the beginning of the next: a text in JSON has no line feed."""
MOST_VALUES = 1 << 22
"""The most values of a trace that is JSON: 800 MB of memory, some 50,000 nodes."""
TYPES = {f"{kind.name}_NODE": int(kind) for kind in Kind}
_FIX = "give what chakra_jsonizer wrote, or Chakra's file itself"


def parsed(content: bytes, name: str, fix: str) -> Any:
    """Parse the JSON of a trace; ``name`` names it in errors, and ``fix`` says what to give in its place.

    Raises:
        SpecError: it is none, or too much.
    """
    try:
        return parse_json(content, most_values=MOST_VALUES)
    except ValueError as error:
        raise SpecError(f"{name}: is no trace: not JSON that is read ({error!s:.200})", fix=fix) from None


def is_trace(content: bytes) -> bool:
    """Whether a text is several objects, one after the other."""
    return BETWEEN in content


def read(content: bytes, name: str, most_nodes: int = MOST_NODES) -> Read:
    """Read a trace; ``name`` names it in errors.

    Raises:
        SpecError: it is none, or has what cannot be played.
    """
    told, *records = parsed(b"[" + content.replace(BETWEEN, b"\n},{") + b"]", name, _FIX)
    if not all(isinstance(record, dict) for record in (told, *records)):
        raise SpecError(f"{name}: is no trace: it is not a list of nodes", fix=_FIX)
    if len(records) > most_nodes:
        raise SpecError(f"{name}: has more than {most_nodes:,} nodes", fix=FIX_OF_MANY)
    odd: Counter[str] = Counter()
    about = {key: printable(str(value)) for key, (_, value) in _attributes(told, f"{name}: metadata").items()}
    version = printable(str(told.get("version", "")))[:LONGEST_NAME]
    nodes = [_node(record, f"{name}: record {number}", name, odd) for number, record in enumerate(records, 2)]
    return Read(version, about, nodes, odd)


def _node(record: dict[str, Any], where: str, name: str, odd: Counter[str]) -> Node:
    """Make a node; ``where`` names its place, as its id may be what is wrong."""
    kind = record.get("type")
    named = Named(
        _whole(record.get("id", 0), where),
        str(record.get("name", "")),
        TYPES.get(kind, 0) if isinstance(kind, str) else _whole(kind or 0, where),
    )
    waits = Waits(_ids(record.get("dataDeps", []), where), _ids(record.get("ctrlDeps", []), where))
    return node(named, waits, _whole(record.get("durationMicros", 0), where), _attributes(record, where), name, odd)


def _ids(value: object, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise SpecError(f"{where} depends on {str(value)[:LONGEST_NAME]!r}", fix=_FIX)
    return tuple(_whole(each, where) for each in value)


def _whole(value: object, where: str) -> int:
    number = (
        int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 21 else value
    )
    if type(number) is not int or number < 0:
        raise SpecError(f"{where} has {str(value)[:LONGEST_NAME]!r} in place of a whole number", fix=_FIX)
    return number


def _number(value: object, where: str) -> int:
    if isinstance(value, str) and value.startswith("-"):
        return -_whole(value[1:], where)
    return value if type(value) is int else _whole(value, where)


def _attributes(record: dict[str, Any], where: str) -> dict[str, tuple[str, Any]]:
    """Return the field of the value and the value of each attribute, by its name."""
    attributes: dict[str, tuple[str, Any]] = {}
    listed = record.get("attr", [])
    for each in listed if isinstance(listed, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise SpecError(f"{where} has an attribute without a name", fix=_FIX)
        for key, value in each.items():
            if key.endswith("Val"):
                field = f"{key[:-3]}_val"
                attributes[each["name"]] = field, _number(value, where) if "int" in field or "fixed" in field else value
    return attributes
