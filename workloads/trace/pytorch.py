"""Host traces of PyTorch's ``ExecutionTraceObserver``: JSON with a node for each operator.

Of its nodes, the collectives count: those of ``c10d`` and, where a communication library reports them,
``record_param_comms``. A host trace has no times, and does not say what waits for a collective. So collectives follow
each other in the order in which the program asked for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from testbed.base.bounded_json import parse_json
from testbed.base.errors import SpecError
from testbed.base.printable import printable
from testbed.workloads.trace import param
from testbed.workloads.trace.chakra import FIX_OF_MANY, LARGEST_BYTES, LONGEST_NAME, MOST_NODES, Read
from testbed.workloads.trace.chakra_json import parsed
from testbed.workloads.trace.graph import ROOTED, Collective, Groups, Kind, Node, are_ranks
from testbed.workloads.trace.param import NAMES, NO_TIME, size_bytes

GROUPS = "## process_group:init ##"
MOST_RANKS = 1 << 16
"""The most ranks of a group that lists none."""
_FIX = "give what ExecutionTraceObserver wrote"


class _Operator(NamedTuple):
    """An operator of ``c10d``: its collective, the place of what a rank gives it among its inputs, and that of the
    number of a root. Of a scatter it is the place of what a rank gets, since only the root gives something."""

    collective: Collective
    given: int = 0
    root: int | None = None


OPERATORS = {
    "c10d::allreduce_": _Operator(Collective.ALL_REDUCE),
    "c10d::allreduce_coalesced_": _Operator(Collective.ALL_REDUCE),
    "c10d::broadcast_": _Operator(Collective.BROADCAST, root=2),
    "c10d::reduce_": _Operator(Collective.REDUCE, root=3),
    "c10d::gather_": _Operator(Collective.GATHER, given=1, root=3),
    "c10d::scatter_": _Operator(Collective.SCATTER, root=3),
    "c10d::allgather_": _Operator(Collective.ALL_GATHER, given=1),
    "c10d::_allgather_base_": _Operator(Collective.ALL_GATHER, given=1),
    "c10d::allgather_into_tensor_coalesced_": _Operator(Collective.ALL_GATHER, given=1),
    "c10d::reduce_scatter_": _Operator(Collective.REDUCE_SCATTER, given=1),
    "c10d::_reduce_scatter_base_": _Operator(Collective.REDUCE_SCATTER, given=1),
    "c10d::reduce_scatter_tensor_coalesced_": _Operator(Collective.REDUCE_SCATTER, given=1),
    "c10d::alltoall_": _Operator(Collective.ALL_TO_ALL, given=1),
    "c10d::alltoall_base_": _Operator(Collective.ALL_TO_ALL, given=1),
    "c10d::barrier": _Operator(Collective.BARRIER),
}
IGNORED = ("c10d::monitored_barrier_",)


def read(content: bytes, name: str, most_nodes: int = MOST_NODES) -> tuple[Read, Groups]:
    """Read a trace; ``name`` names it in errors.

    Raises:
        SpecError: it is none, or has a collective that cannot be played.
    """
    value = parsed(content, name, _FIX)
    records = value.get("nodes") if isinstance(value, dict) else value
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise SpecError(f"{name}: is no trace: it has no list of nodes", fix=_FIX)
    if len(records) > most_nodes:
        raise SpecError(f"{name}: has more than {most_nodes:,} nodes", fix=FIX_OF_MANY)
    odd: Counter[str] = Counter()
    about = {"nodes": str(len(records))}
    if param.is_trace(records):
        listed, told = param.read(records, name, odd)
        return Read("", about, listed, odd), told
    groups: dict[str, tuple[int, ...]] = {}
    world = 0  # the size of the largest group
    everyone: tuple[int, ...] = ()  # ranks of groups that list none
    found: list[Node] = []
    within: set[int] = set()  # operators that report again what another one has
    for record in sorted(_some(records, odd), key=lambda one: _id(one, name)):
        number = _id(record, name)
        label = str(record.get("name", ""))
        if label == GROUPS:
            own, largest, everyone = _groups(record, name, everyone)
            groups.update(own)
            world = max(world, largest)
        elif label in OPERATORS:
            within.add(number)
            found.append(_of_c10d(record, number, name, world))
        elif label == "record_param_comms" and record.get("ctrl_deps") not in within:
            node = _of_comms(record, number, name, odd)
            if node is not None:
                found.append(node)
        elif label.startswith("c10d::") and label not in IGNORED:
            raise SpecError(f"{name}: node {number} is {label:.60}, which is not played", fix="cut it out of the trace")
    if len(set(groups.values())) > 1 and any(node.name in OPERATORS for node in found):
        odd["collectives whose group the trace does not tell, taken to be of all ranks"] += len(found)
    chained = [node._replace(control=(before.id,)) for before, node in pairwise(found)]
    version = printable(str(value.get("schema", "")))[:LONGEST_NAME] if isinstance(value, dict) else ""
    return Read(version, about, [*found[:1], *chained], odd), groups


def _some(records: Sequence[Mapping[str, Any]], odd: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yield nodes that may communicate; count the others."""
    for record in records:
        label = record.get("name")
        if isinstance(label, str) and (label.startswith("c10d::") or label in (GROUPS, "record_param_comms")):
            yield record
        else:
            odd[NO_TIME] += 1


def _id(record: Mapping[str, Any], name: str) -> int:
    number = record.get("id")
    if type(number) is not int or number < 0:
        raise SpecError(f"{name}: a node has the id {str(number)[:LONGEST_NAME]!r}", fix=_FIX)
    return number


def _list(record: Mapping[str, Any], key: str, where: str) -> list[Any]:
    inputs = record.get("inputs")
    found = inputs.get(key) if isinstance(inputs, dict) else inputs if key == "values" else None
    if not isinstance(found, list):
        raise SpecError(f"{where} has no inputs", fix=_FIX)
    return found


def _of_c10d(record: Mapping[str, Any], number: int, name: str, world: int) -> Node:
    label, where = str(record["name"]), f"{name}: node {number} ({record['name']})"
    operator, values = OPERATORS[label], _list(record, "values", where)
    barrier = operator.collective == Collective.BARRIER
    nbytes = 0 if barrier else sum(_tensors(values[operator.given] if operator.given < len(values) else None))
    if operator.collective == Collective.SCATTER:
        if not world:
            raise SpecError(f"{where}: nothing before it tells how many ranks there are", fix=f"keep {GROUPS}")
        nbytes *= world
    if not barrier and not 0 < nbytes <= LARGEST_BYTES:
        raise SpecError(f"{where} gives an array of {nbytes} bytes", fix="cut it out of the trace")
    root = values[operator.root] if operator.root is not None and operator.root < len(values) else 0
    root = root if type(root) is int and root >= 0 else 0
    return Node(number, label, Kind.COMM_COLL, bytes=nbytes, collective=operator.collective, root=root)


def _tensors(value: object) -> Iterator[int]:
    """Yield the bytes of each tensor in a value: a tensor is its ids, offset, elements, bytes of one, and device."""
    if not isinstance(value, list):
        return
    if len(value) == 6 and all(type(one) is int for one in value[:5]) and isinstance(value[5], str):
        yield max(0, value[3]) * max(0, value[4])
        return
    for one in value:
        yield from _tensors(one)


def _of_comms(record: Mapping[str, Any], number: int, name: str, odd: Counter[str]) -> Node | None:
    """Make a node of what a communication library reports. Among its inputs, the root comes before the name."""
    listed = record.get("attrs")
    attributes = {
        one["name"]: one.get("value")
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    }
    where, called = f"{name}: node {number} (record_param_comms)", str(attributes.get("collective_name", "")).lower()
    if called in ("", "init", "wait"):
        return None
    if called not in NAMES:
        raise SpecError(f"{where} is {called!r:.60}, which is not played", fix="cut it out of the trace")
    elements = attributes.get("in_msg_nelems", attributes.get("in_split_nelems"))
    nbytes = 0 if NAMES[called] == Collective.BARRIER else size_bytes(elements, attributes.get("dtype"))
    if nbytes is None:
        raise SpecError(f"{where} has no in_msg_nelems and dtype that tell its bytes", fix=_FIX)
    group = printable(str(attributes.get("pg_name", "")))[:LONGEST_NAME]
    node = Node(number, called, Kind.COMM_COLL, bytes=nbytes, collective=NAMES[called], group=group)
    if node.collective not in ROOTED:
        return node
    values = _list(record, "values", where) if "inputs" in record else []
    for root, after in pairwise(values):
        if after == attributes["collective_name"] and type(root) is int and root >= 0:
            return node._replace(root=root)
    odd["collectives whose root the trace does not tell, taken to be rank 0 of its group"] += 1
    return node


def _groups(
    record: Mapping[str, Any], name: str, everyone: tuple[int, ...]
) -> tuple[dict[str, tuple[int, ...]], int, tuple[int, ...]]:
    """Read the groups of a process, whose text is JSON within JSON, the size of the largest, and ``everyone``: a group
    of all ranks lists none of them, and all such groups have the same."""
    where = f"{name}: {GROUPS}"
    values = _list(record, "values", where)
    try:
        told = parse_json(values[0].encode()) if values and isinstance(values[0], str) else None
    except ValueError as error:
        raise SpecError(f"{where} is not JSON ({error!s:.200})", fix=_FIX) from None
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise SpecError(f"{where} has no list of groups", fix=_FIX)
    found = {}
    for one in told:
        ranks, size = one.get("ranks"), one.get("group_size")
        called = printable(str(one.get("pg_name", "")))[:LONGEST_NAME]
        if are_ranks(ranks):
            found[called] = tuple(ranks)
        elif ranks == [] and type(size) is int and 0 < size <= MOST_RANKS:
            everyone = everyone or tuple(range(size))
            if size != len(everyone):
                raise SpecError(f"{where} has groups of all {len(everyone)} ranks and of all {size}", fix=_FIX)
            found[called] = everyone
    sizes = [one["group_size"] for one in told if type(one.get("group_size")) is int]
    return found, max(sizes, default=0), everyone
