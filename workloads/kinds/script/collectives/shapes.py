"""The plan of a call: its trees, the cut into chunks, and what one process does with each chunk. Made once a shape.

Small calls take fewer classes of the scheme, so that no chunk is smaller than ``LEAST_BYTES``: a message costs as much
as some thousand bytes on a fast link, and a process handles one after the other. Where links wait for the first chunks,
chunks are smaller (:mod:`testbed.workloads.sync.chunk_size`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from testbed.base.errors import SchemeError
from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.kinds.script.collectives.trees import delivers, trees
from testbed.workloads.learning.parts import spans
from testbed.workloads.sync.chunk_size import shortened
from testbed.workloads.sync.chunks import FLOAT_BYTES, ChunkTable, cut
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.plan import Plan, plan

LEAST_BYTES = 2048
"""Least bytes of a chunk, where a call has as many."""
EAGER_BYTES = 64 * 2**10
"""A call of at most this size is sent before the other side has made it."""
EARLY_BYTES = 256 * 2**10
"""Limit on the bytes of a chunk that may be kept: more than a link carries of a call before the neighbour's news of it
comes."""
MOST_BYTES = 2**40
"""Limit on the bytes of one call, so that no number of another process makes this one ask for more than any machine
has."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The part of one process in a call.

    Attributes:
        call: the call.
        forest: its trees.
        table: its chunks; spans are in numbers of ``table_itemsize`` bytes.
        plan: what this process does with each chunk.
        neighbours: the nodes that it exchanges chunks with.
        is_eager: whether chunks leave before the other side has made the call.
    """

    call: Call
    forest: Forest
    table: ChunkTable
    plan: Plan
    neighbours: Sequence[int]
    is_eager: bool


kept: Callable[[Callable[[Call], Shape]], Callable[[Call], Shape]] = lru_cache(maxsize=1000)
"""Keeps the shapes that a function makes. A script whose arrays have ever new sizes has them planned again."""


def shape(forest: Forest, call: Call, chunk_bytes: int, node: int) -> Shape:
    """Make the shape of a call of at least one number, in a group whose allreduce takes ``forest``, for one process.

    Raises:
        SchemeError: the call has no trees, or these do not do what it is for.
    """
    made, table = pieces(forest, call, chunk_bytes)
    return Shape(
        call, made, table, plan(node, made, table), neighbours(made, node), is_eager=call.nbytes <= EAGER_BYTES
    )


def pieces(forest: Forest, call: Call, chunk_bytes: int) -> tuple[Forest, ChunkTable]:
    """Return the trees and the chunks of such a call.

    Raises:
        SchemeError: as :func:`shape`.
    """
    if call.nbytes > MOST_BYTES:
        raise SchemeError(f"{call.describe()} is too large", fix="split it")
    made = fewer(trees(forest, call), call)
    if made.fixed is not None and call.dtype != "float32":
        made = replace(made, fixed=None)  # switches add whole numbers as they are
    if wrong := delivers(made, call):
        raise SchemeError(f"scheme {forest.scheme}, {call.describe()}: {wrong}", fix="report it: this is a mistake")
    return made, _cut(made, call, shortened(made, call.nbytes, chunk_bytes))


def direct(names: Sequence[str], ends: tuple[int, int], call: Call, chunk_bytes: int, node: int) -> Shape:
    """Make the shape of a message from one of two nodes to the other; ``ends`` are sender and receiver."""
    source, target = ends
    made, table = direct_pieces(names, ends, call, chunk_bytes)
    other = target if node == source else source
    return Shape(call, made, table, plan(node, made, table), [other], is_eager=call.nbytes <= EAGER_BYTES)


def direct_pieces(
    names: Sequence[str], ends: tuple[int, int], call: Call, chunk_bytes: int
) -> tuple[Forest, ChunkTable]:
    """Return the tree and the chunks of such a message."""
    source, target = ends
    up = np.full((1, len(names)), ABSENT, np.int32)
    down = up.copy()
    up[0, source] = down[0, source] = ROOT
    down[0, target] = source
    made = Forest("direct", tuple(names), ends, np.ones(1, np.int64), up, down)
    return made, _cut(made, call, chunk_bytes)


def _cut(forest: Forest, call: Call, chunk_bytes: int) -> ChunkTable:
    return cut(forest, call.count, [(0, call.count)], max(1, chunk_bytes // call.itemsize) * FLOAT_BYTES)


def fewer(forest: Forest, call: Call) -> Forest:
    """Reduce the trees to so few classes that each has ``LEAST_BYTES``, or each piece has one class."""
    if not forest.aligned:
        return _kept(forest, _spread(forest.classes, call.nbytes))
    size = len(forest.workers)
    piece = call.count if call.what in (What.BROADCAST, What.REDUCE) else call.count // size
    ends = np.cumsum(forest.share)
    owner = (ends - 1) // max(1, piece)
    classes, shares = [], []
    for number in range(-(-call.count // piece)):
        own = np.flatnonzero((owner == number) & (forest.share > 0))
        some = own[_spread(len(own), piece * call.itemsize)]
        classes += some.tolist()
        shares += [last - first for first, last in spans(piece, len(some))]
    return replace(_kept(forest, classes), share=np.array(shares, dtype=np.int64))


def _spread(classes: int, nbytes: int) -> list[int]:
    """Choose some of so many classes, evenly."""
    count = max(1, min(classes, nbytes // LEAST_BYTES))
    return [n * classes // count for n in range(count)]


def _kept(forest: Forest, classes: Sequence[int]) -> Forest:
    return forest if len(classes) == forest.classes else forest.some(classes)
