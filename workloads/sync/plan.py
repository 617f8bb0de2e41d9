"""The plan of one node: for each chunk the nodes from which it comes and to which it goes on, found once before the
start. Numbers of chunks and their gates are the same at every node."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest


@dataclass(frozen=True)
class Numbered:
    """The chunks of an iteration and of a barrier, which have the same numbers at every node.

    After the K chunks of the gradient come, where switches add by block exponents, those that carry the exponents: one
    for each batch of ``window`` chunks of a bucket and class, with a number for each. Then, where one is asked for, the
    tally: a chunk of one number, in the last bucket and the barrier's first class. Then the barrier's: a chunk
    without floats along the trees of each of :func:`barrier_classes`.

    A gate opens when what passes it may be taken and sent: gate b when bucket b is complete, gate ``buckets`` at a
    barrier, and one for each batch when its exponents are agreed on; the exponents of the next batch pass it, too.

    Attributes:
        buckets: number of buckets, B.
        data: number of chunks that hold the gradient, K.
        first, last: span of each chunk in floats; of exponents, in the order of the chunks that ``scaled`` lists.
        klass, gate: of each chunk.
        bucket: of each chunk, or of those that its exponents are about; B at a barrier.
        members: chunks of each gate.
        scaled: the batch that each chunk of exponents is about, from the first such chunk on.
        barrier: classes of the barrier's chunks, which are the last ones.
        tally: the chunk of the tally; None where there is none.
    """

    buckets: int
    data: int
    first: list[int]
    last: list[int]
    klass: list[int]
    gate: list[int]
    bucket: list[int]
    members: list[list[int]]
    scaled: list[list[int]]
    barrier: list[int]
    tally: int | None

    def sent_together(self, gate: int) -> list[list[int]]:
        """List the chunks of a gate in the order to send them: exponents, the first chunk of each class, the second of
        each, ...; each list by class."""
        seen: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for k in self.members[gate]:
            c = self.klass[k]
            seen[c] = seen.get(c, -1) + 1
            found.setdefault(seen[c] if k < self.data else -1, []).append(k)
        return [sorted(found[nth], key=self.klass.__getitem__) for nth in sorted(found)]


def numbered(forest: Forest, chunks: ChunkTable) -> Numbered:
    """Number the chunks."""
    barrier = barrier_classes(forest)
    scaled = _batches(chunks, forest.window) if forest.fixed is not None and forest.fixed.scale is None else []
    sizes = np.cumsum([0, *map(len, scaled)]).tolist()
    about = [int(chunks.bucket[ks[0]]) for ks in scaled]
    tallies = int(chunks.has_tally)
    last = [chunks.buckets - 1] * tallies
    gate = [*_gates(chunks, scaled), *last, *[chunks.buckets] * len(barrier)]
    members: list[list[int]] = [[] for _ in range(chunks.buckets + 1 + len(scaled))]
    for k, number in enumerate(gate):
        members[number].append(k)
    return Numbered(
        buckets=chunks.buckets,
        data=len(chunks),
        first=[*chunks.start.tolist(), *sizes[:-1], *[0] * (tallies + len(barrier))],
        last=[*chunks.stop.tolist(), *sizes[1:], *[1] * tallies, *[0] * len(barrier)],
        klass=[*chunks.klass.tolist(), *(int(chunks.klass[ks[0]]) for ks in scaled), *barrier[:tallies], *barrier],
        gate=gate,
        bucket=[*chunks.bucket.tolist(), *about, *last, *[chunks.buckets] * len(barrier)],
        members=members,
        scaled=scaled,
        barrier=barrier,
        tally=len(chunks) + len(scaled) if tallies else None,
    )


@dataclass(frozen=True)
class Plan(Numbered):
    """Lists over the chunks and classes, as the event loop indexes them (plain lists: faster than arrays one by one).

    Attributes:
        children: by chunk, partial sums to wait for.
        leaves: by gate, the chunks that this node may send at once, in the order to send them.
        parent: by class, the node to send the partial sum to, ``ROOT`` or ``ABSENT``.
        receives: by class, whether the sum comes back to this node.
        forward: by class, the nodes to pass the sum on to.
        chunks: (of an iteration, of a barrier) that this node takes part in.
        parts: by bucket, how many of its chunks this node takes part in.
        expected: by neighbour, messages that come from it (in an iteration, in a barrier).
        barrier_rounds: how often a barrier's chunks go around, see :func:`barrier_classes`.
    """

    children: list[int]
    leaves: list[list[int]]
    parent: list[int]
    receives: list[bool]
    forward: list[list[int]]
    chunks: tuple[int, int]
    parts: list[int]
    expected: dict[int, tuple[int, int]]
    barrier_rounds: int


def plan(node: int, forest: Forest, chunks: ChunkTable) -> Plan:
    """Make the plan of ``node``."""
    every = numbered(forest, chunks)
    klass, barrier = every.klass, every.barrier
    parent = forest.reduce[:, node].tolist()
    receives = (forest.broadcast[:, node] != ABSENT).tolist()
    class_children = np.count_nonzero(forest.reduce == node, axis=1).tolist()
    forward: list[list[int]] = [[] for _ in range(forest.classes)]
    for c, child in np.argwhere(forest.broadcast == node).tolist():
        forward[c].append(child)
    mine = [parent[c] != ABSENT or receives[c] for c in klass]
    is_leaf = [up != ABSENT and not below for up, below in zip(parent, class_children, strict=True)]
    begin = first_class(forest, node)
    leaves = [list(sending_order(every.sent_together(gate), klass, begin)) for gate in range(len(every.members))]
    last_iteration = len(klass) - len(barrier)
    return Plan(
        **vars(every),
        children=[class_children[c] for c in klass],
        leaves=[[k for k in ks if is_leaf[klass[k]]] for ks in leaves],
        parent=parent,
        receives=receives,
        forward=forward,
        chunks=(sum(mine[:last_iteration]), sum(mine[last_iteration:])),
        parts=np.bincount(every.bucket, weights=mine, minlength=chunks.buckets + 1).astype(int).tolist(),
        expected=_expected(node, forest, klass[:last_iteration], barrier),
        barrier_rounds=1 if len(barrier) == 1 else 2,
    )


class Windows:
    """Windows: the chunks that a worker may not send yet, for want of an earlier one's sum.

    Attributes:
        before: by chunk, the one whose sum it waits for.
    """

    def __init__(self, klass: Sequence[Hashable], window: int) -> None:
        """Set up; a ``window`` of 0 is no limit; ``klass`` says for each chunk with which others it is counted."""
        order: dict[Hashable, list[int]] = {}
        for k, c in enumerate(klass if window else ()):
            order.setdefault(c, []).append(k)
        pairs = [zip(ks, ks[window:], strict=False) for ks in order.values()]
        self.before = {later: k for each in pairs for k, later in each}
        self._after = {k: later for later, k in self.before.items()}
        self.begin()

    def begin(self) -> None:
        """Begin a new iteration, of which no sum has come."""
        self._summed: set[int] = set()
        self._parked: set[int] = set()

    def may_send(self, k: int) -> bool:
        """Whether chunk k may leave; if not, :meth:`summed` names it when it may."""
        if k in self.before and self.before[k] not in self._summed:
            self._parked.add(k)
            return False
        return True

    def summed(self, k: int) -> int | None:
        """Note that the sum of chunk k has come; return the chunk that waited for it, if one did."""
        self._summed.add(k)
        later = self._after.get(k)
        if later in self._parked:
            self._parked.discard(later)
            return later
        return None


def _batches(chunks: ChunkTable, size: int) -> list[list[int]]:
    """List the chunks of each bucket and class, bucket by bucket, in runs of at most ``size``."""
    found: dict[tuple[int, int], list[int]] = {}
    for k, key in enumerate(zip(chunks.bucket.tolist(), chunks.klass.tolist(), strict=True)):
        found.setdefault(key, []).append(k)
    return [ks[i : i + size] for _, ks in sorted(found.items()) for i in range(0, len(ks), size)]


def _gates(chunks: ChunkTable, scaled: list[list[int]]) -> list[int]:
    """Return the gate of each chunk of the gradient, then of each chunk of exponents."""
    gates: list[int] = chunks.bucket.tolist()
    before = None
    for number, ks in enumerate(scaled):
        key = (chunks.bucket[ks[0]], chunks.klass[ks[0]])
        gates.append(chunks.buckets + number if key == before else int(key[0]))
        before = key
    for number, ks in enumerate(scaled, start=chunks.buckets + 1):
        for k in ks:
            gates[k] = number
    return gates


def barrier_classes(forest: Forest) -> list[int]:
    """Choose the classes whose trees a barrier takes: the first with all workers, and others until each node is in a
    tree.

    Servers that have hosts of their own may be in one class each. A worker that has got the
    sums of all these classes knows that every node has entered the barrier. A server knows it of the workers only, so
    where there are several classes they go around twice: whoever has entered the second round has left the first.
    """
    member = (forest.reduce != ABSENT) | (forest.broadcast != ABSENT)
    found = [0 if forest.members is None else int(np.argmax(forest.members.sum(axis=1) == len(forest.workers)))]
    missing = member.any(axis=0) & ~member[found[0]]
    while missing.any():
        found.append(int(np.argmax(np.count_nonzero(member[:, missing], axis=1))))
        missing &= ~member[found[-1]]
    return found


def first_class(forest: Forest, node: int) -> int:
    """Return the class that a node begins with: that of its rank, for if all began at class 0, its root would be the
    only one to receive."""
    return forest.workers.index(node) % forest.classes if node in forest.workers else 0


def sending_order(together: Sequence[Sequence[int]], klass: Sequence[int], begin: int) -> Iterator[int]:
    """Yield the chunks that :meth:`Numbered.sent_together` lists in the order of a node that begins with a class."""
    for ks in together:
        at = bisect_left(ks, begin, key=klass.__getitem__)
        yield from ks[at:]
        yield from ks[:at]


def _expected(node: int, forest: Forest, klass: list[int], barrier: list[int]) -> dict[int, tuple[int, int]]:
    """Count the messages from each neighbour: partial sums where it is a child of ``node``, sums where it is its
    broadcast-parent."""
    per_class = np.bincount(klass, minlength=forest.classes)
    from_child = forest.reduce == node
    source = forest.broadcast[:, node]
    senders = set(np.flatnonzero(from_child.any(axis=0)).tolist()) | set(source[source > ROOT].tolist())
    return {
        peer: (
            int(per_class[from_child[:, peer]].sum() + per_class[source == peer].sum()),
            int(np.count_nonzero(from_child[barrier, peer]) + np.count_nonzero(source[barrier] == peer)),
        )
        for peer in senders
    }
