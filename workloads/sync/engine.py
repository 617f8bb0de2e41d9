"""Run a forest: one single-threaded event loop (:mod:`.loop`) a node, no locks, no copies but the kernel's.

Problem: every node must, for each chunk, wait for its own gradient and its children's partial sums, add them, pass the
result to its parent, and on the way back pass the sum to its broadcast-children, over connections that are all busy at
once.

Chosen: a message is a 4-byte header (1 bit phase, 2 bits round, 29 bits chunk) and the chunk's numbers.
Sums arrive in the gradient itself; partial sums arrive in a small scratch buffer and are added while they are in the
cache. Sends are memoryviews of the gradient. What numbers are and where they lie is
:mod:`testbed.workloads.sync.sums`'.

A round is one iteration or one barrier. A message that cannot be taken yet (its gate is not open here, since its
bucket's gradient is not complete, or it belongs to a later round) stops the reading of its connection, and TCP slows
the sender down. That cannot deadlock: a node ends a round only when it has sent everything of it, so behind such a
message nothing is queued that this round needs. (A gate that opens when exponents are agreed on opens at a node before
it passes them on to its children, and only these send what passes it.) A connection's messages come in the order of
rounds, so two bits tell the present round from a later one, unless four rounds in a row leave the connection unused.
Only barriers leave one unused, and a barrier takes no gradient. Over parallel circuits a neighbour has several
connections (:mod:`.bundle`), and few chunks may leave one unused, too. That does no harm, because a neighbour does not
end the next round before this node has begun it and given its part.

With ``priority``, a bucket that becomes ready later overtakes the earlier ones that wait to be sent: it belongs to
layers nearer to the input, which the next forward pass needs first (P3, Jayarajan et al. 2019, section 4; TicTac,
Hashemi et al. 2019; ByteScheduler, Peng et al. 2019, section 4.1). That cannot deadlock either. Only messages of one
round are ever queued, so none overtakes one of an earlier round. And within a round a held message waits for nothing
but its bucket to be opened here, by ``start``, which waits for no message of that round; every node starts every
bucket, in whatever order messages come. So each held connection is read on, and the messages behind it, in whatever
order, arrive. A window counts each bucket's chunks for themselves then, so that none waits for those it may overtake.
Overtaking does cost time where nodes open buckets at different moments: what cannot be taken yet holds
up the rest.

Rejected: staging what comes early (memory without bound), and float sums in a fixed order (waiting for the slowest
child first; sums of the same floats in another order differ in the last bits only).
"""

from __future__ import annotations

import heapq
import time
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync.bundle import Bundle, Sockets, bundles
from testbed.workloads.sync.chunks import CHUNK_BITS, FLOAT_BYTES, ChunkTable
from testbed.workloads.sync.connection import HEADER_BYTES, LAST_PACKET_BYTES, Connection, lost
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.loop import Loop
from testbed.workloads.sync.plan import Plan
from testbed.workloads.sync.plan import plan as plan_of
from testbed.workloads.sync.steps import Jitter
from testbed.workloads.sync.sums import FixedSums, FloatSums, Numbers, Sums

_SUM = 1 << 31
_ROUND_SHIFT, _ROUND_MASK = CHUNK_BITS, 3
_CHUNK_MASK = (1 << _ROUND_SHIFT) - 1
_SCRATCH_BYTES = 1 << 18

Floats = NDArray[np.float32]


class Engine(Loop):
    """Sums ``gradient`` over all workers, in place, again and again.

    ``gradient`` is float32[total_floats], or None on a node that adds and forwards without a gradient of its own.
    ``sockets`` holds each neighbour's connected socket or sockets
    (:func:`testbed.workloads.sync.transport.connect_all`).

    An iteration is one ``start`` a bucket, each as soon as the bucket's gradient is complete, then ``wait``. Between a
    bucket's ``start`` and the end of ``wait`` the engine alone may touch the bucket.
    """

    mover = "python"

    def __init__(
        self,
        node: int,
        forest: Forest,
        chunks: ChunkTable,
        sockets: Sockets,
        gradient: Floats | None,
        *,
        priority: bool = False,
        jitter: Jitter | None = None,
    ) -> None:
        if forest.fixed and (priority or chunks.has_tally):
            raise ValueError("chunks that switches add keep their order")  # as the gates of exponents need it
        if gradient is not None and (gradient.shape != (chunks.total_floats,) or gradient.dtype != np.float32):
            raise ValueError(f"gradient is {gradient.dtype}{list(gradient.shape)}, not [{chunks.total_floats}]")
        # Each node serves the neighbour after itself first: if all began with the lowest, that one's link would be the
        # only one in use, and the last one's would idle at the start.
        order = sorted(sockets, key=lambda peer: (peer - node) % len(forest.nodes))
        self._by_node = bundles(forest.nodes, {peer: sockets[peer] for peer in order}, ordered=priority)
        super().__init__(forest.nodes[node], [one for each in self._by_node.values() for one in each.connections])
        self._node, self._forest, self._chunks = node, forest, chunks
        self._plan = plan_of(node, forest, chunks)
        self._sums: Sums
        if forest.fixed is None:
            self._sums = FloatSums(self._plan, forest.window, chunks.total_floats, gradient, each_bucket=priority)
        else:
            world = len(forest.workers)
            self._sums = FixedSums(self._plan, forest.window, forest.fixed, world, self._name, gradient)
        self._views = [part.data.cast("B") if len(part) else memoryview(b"") for part in self._sums.parts]
        self._scratch: Numbers = np.empty(_SCRATCH_BYTES // FLOAT_BYTES, self._sums.dtype)
        self._scratch_bytes = self._scratch.data.cast("B")
        self._rank = [-bucket if priority else 0 for bucket in self._plan.bucket]
        self._jitter = jitter
        self._later: list[tuple[float, int, Bundle, int, int]] = []
        """Messages that jitter holds back, the earliest first: due time, order, neighbour, header and chunk."""
        self._held_back = 0
        self._round = -1
        self._follow(self._plan)
        self._begin_round()

    @property
    def tally(self) -> Numbers:
        """The number, an array of one, that is summed beside the gradient, if the chunks have a tally. It may be
        changed when the gradient may."""
        assert self._plan.tally is not None
        assert isinstance(self._sums, FloatSums)
        return self._sums.tally

    def replan(self, plan: Forest) -> None:
        if any(self._ready):
            raise ValueError("another plan within an iteration")
        if self._jitter or plan.fixed or plan.window != self._forest.window:
            raise ValueError("another plan, and steps that jitter, or windows")
        other = plan_of(self._node, plan, self._chunks)
        if not np.array_equal(plan.share, self._forest.share) or other.klass != self._plan.klass:
            raise ValueError("a plan with other classes")
        neighbours = {*other.expected, *chain(*other.forward), *other.parent} - {ROOT, ABSENT}
        if strangers := neighbours - self._by_node.keys():
            raise ValueError(f"a plan in which {self._name} has {len(strangers)} neighbours that it has not met")
        self._follow(other)
        self._round -= 1  # the one that has begun begins again
        self._begin_round()

    def _follow(self, plan: Plan) -> None:
        """Take the next round's messages where the plan says."""
        self._plan = plan
        self._forward = [[self._by_node[peer] for peer in peers] for peers in plan.forward]
        self._whole_bytes = {peer: self._iteration_bytes(peer) - LAST_PACKET_BYTES for peer in self._by_node}

    def start(self, bucket: int) -> None:
        """Let a bucket leave, whose gradient is complete.

        Raises:
            WorkerError: a neighbour is gone.
        """
        if self._ready[bucket]:
            raise ValueError(f"bucket {bucket} was started twice in one iteration")
        if not any(self._ready):
            self._expect(0)
        self._bucket_complete_s[bucket] = time.monotonic()  # of a bucket of which this node has no chunk
        self._open(bucket)
        self._move()

    def wait(self, timeout_s: float) -> float:
        """Finish the iteration; return the time (``time.monotonic``) at which the last chunk's sum was complete here.

        On return every chunk that others need from this node is with the kernel, so the gradient may be changed.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``; names the neighbours waited for.
            WorkerError: a neighbour is gone.
        """
        if not all(self._ready[: self._plan.buckets]):
            raise ValueError("wait before every bucket was started")
        self._finish(timeout_s)
        if self._sums.finish():
            self._complete_s = time.monotonic()
        return self._complete_s

    def wait_bucket(self, bucket: int, timeout_s: float) -> float:
        """Move chunks until the bucket's sum is complete here; its floats may be read, but not changed before ``wait``.

        Returns the time (``time.monotonic``) at which it was complete, which may be long ago.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`wait`.
        """
        if not self._ready[bucket]:
            raise ValueError(f"bucket {bucket} was not started")
        self._until(lambda: not self._missing[bucket], timeout_s)
        return self._bucket_complete_s[bucket]

    def barrier(self, timeout_s: float) -> None:
        """Return once every worker, and every node that adds for some, has called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`wait`.
        """
        if any(self._ready):
            raise ValueError("a barrier within an iteration")
        for _ in range(self._plan.barrier_rounds):
            self._expect(1)
            self._open(self._plan.buckets)
            self._finish(timeout_s)

    # A round: an iteration (0) or a barrier (1).

    def _begin_round(self) -> None:
        """Begin a round: from here on its messages are taken, once their gate is open."""
        self._round = (self._round + 1) & _ROUND_MASK
        self._ready = [False] * len(self._plan.members)
        self._waiting = self._plan.children.copy()
        self._unbegun = self._plan.children.copy()
        self._sum_begun = bytearray(len(self._plan.children))
        self._missing = self._plan.parts.copy()
        self._bucket_complete_s = [0.0] * len(self._missing)
        self._sums.windows.begin()
        if self._jitter:
            self._jitter.begin()
        for neighbour in self._by_node.values():
            neighbour.received = neighbour.expected = 0
            if len(neighbour.connections) == 1:
                neighbour.connections[0].uncut_bytes = self._whole_bytes[neighbour.node]

    def _iteration_bytes(self, peer: int) -> int:
        """Count the bytes that go to a neighbour in an iteration, headers included."""
        plan = self._plan
        times = [(to == peer) + below.count(peer) for to, below in zip(plan.parent, plan.forward, strict=True)]
        data = (k for k, bucket in enumerate(plan.bucket) if bucket != plan.buckets)
        return sum(times[plan.klass[k]] * (HEADER_BYTES + len(self._views[k])) for k in data)

    def _expect(self, kind: int) -> None:
        self._remaining = self._plan.chunks[kind]
        self._complete_s = time.monotonic()
        for neighbour in self._by_node.values():
            neighbour.expected = self._plan.expected.get(neighbour.node, (0, 0))[kind]
            if neighbour.is_closed and neighbour.expected:
                raise lost(neighbour.connections[0], "it was closed")

    def _open(self, gate: int) -> None:
        """Take messages of this gate from now on, and queue those that need nothing from other nodes."""
        self._ready[gate] = True
        self._sums.open(gate)
        for connection in self._connections:
            connection.held = False
        for k in self._plan.leaves[gate]:
            self._reduced(k)

    def _finish(self, timeout_s: float) -> None:
        """Loop until every chunk of the round is complete and everything is sent."""
        self._until(lambda: not self._remaining and not self._later and not self._sending(), timeout_s)
        self._begin_round()

    def _awaited(self) -> str:
        silent = [one.name for one in self._by_node.values() if one.received < one.expected]
        stuck = list(dict.fromkeys(connection.name for connection in self._stuck()))
        waits = [f"for chunks from {', '.join(silent)}"] if silent else []
        waits += [f"for {', '.join(stuck)} to take chunks"] if stuck else []
        return " and ".join(waits)

    # Messages.

    def _patience_s(self, timeout_s: float) -> float:
        """Return the time (s) to sleep: at most until the next message that jitter holds back is due."""
        return min(timeout_s, max(0.0, self._later[0][0] - time.monotonic())) if self._later else timeout_s

    def _move(self) -> bool:
        """Read and write once, after queueing messages that jitter has held back until now."""
        moved = False
        while self._later and self._later[0][0] <= time.monotonic():
            _, _, neighbour, word, k = heapq.heappop(self._later)
            neighbour.push(word, self._views[k], self._rank[k], self._sums.turn[k])
            moved = True
        return super()._move() or moved

    def _take(self, connection: Connection) -> bool:
        if connection.word is None:
            connection.word = self._next_word(connection)
        if connection.word is None:
            if self._by_node[connection.node].is_closed and self._owes(connection.node):
                raise lost(connection, "it was closed")
            return False
        return self._take_more(connection, connection.word)

    def _next_word(self, connection: Connection) -> int | None:
        """Read the header of the next message that has a meaning."""
        return connection.read_header()

    def _owes(self, node: int) -> bool:
        """Whether something is to come from a neighbour."""
        return self._by_node[node].received < self._by_node[node].expected

    def _take_more(self, connection: Connection, word: int) -> bool:
        """Read more of the message that has this header; return whether anything came."""
        k = word & _CHUNK_MASK
        if not connection.admitted and not self._admit(connection, k):
            return connection.held
        came = connection.left == 0
        if word & _SUM and connection.left:
            came = connection.read_payload(self._views[k][-connection.left :]) > 0
        elif connection.left:
            came = self._add(connection, k)
        if connection.left == 0:
            self._finish_message(connection, k)
        elif connection.closed:
            raise self._cut_off(connection)
        return came

    def _cut_off(self, connection: Connection) -> WorkerError:
        return lost(connection, "it was closed within a message")

    def _admit(self, connection: Connection, k: int) -> bool:
        """Begin to take message k if its gate is open in this round, and if there is room; else hold the connection.

        What two neighbours begin before either ends is counted here, so no more messages of a chunk end than are
        expected.
        """
        word = connection.word or 0
        if k >= len(self._views):
            raise self._misfit(connection, k)
        if (word >> _ROUND_SHIFT) & _ROUND_MASK != self._round or not self._ready[self._plan.gate[k]]:
            connection.held = True
            return False
        klass = self._plan.klass[k]
        if word & _SUM:
            is_due = self._plan.receives[klass] and self._plan.parent[klass] != ROOT and not self._sum_begun[k]
        else:
            is_due = self._unbegun[k] > 0
        if not is_due:
            raise self._misfit(connection, k)
        if not self._sums.take(k, self._is_queued):
            return False
        if word & _SUM:
            self._sum_begun[k] = True
        else:
            self._unbegun[k] -= 1
        connection.admitted = True
        connection.left = len(self._views[k])
        return True

    def _misfit(self, connection: Connection, k: int) -> WorkerError:
        return WorkerError(
            f"{self._name} got chunk {k} from {connection.name}, and does not expect it",
            fix="give every node the same forest, model and chunk size",
        )

    def _add(self, connection: Connection, k: int) -> bool:
        """Read some of a partial sum and add its whole numbers to ours; return whether anything came."""
        count, before_end, floats = connection.read_terms(self._scratch_bytes, FLOAT_BYTES)
        self._sums.add(k, (len(self._views[k]) - before_end) // FLOAT_BYTES, self._scratch[:floats])
        return count > 0

    def _finish_message(self, connection: Connection, k: int) -> None:
        is_sum = (connection.word or 0) & _SUM
        connection.word = None
        connection.admitted = False
        self._by_node[connection.node].received += 1
        if is_sum:
            self._summed(k)
            return
        self._waiting[k] -= 1
        if self._waiting[k] == 0:
            self._reduced(k)

    def _reduced(self, k: int) -> None:
        """Pass chunk k up, or at the root down: it holds this node's and all its children's contributions."""
        c = self._plan.klass[k]
        parent = self._plan.parent[c]
        if parent == ROOT:
            self._summed(k)
        elif self._sums.windows.may_send(k):
            self._push(self._by_node[parent], k, 0)
            if not self._plan.receives[c]:
                self._complete(k)

    def _push(self, neighbour: Bundle, k: int, phase: int) -> None:
        """Queue a message; where there is jitter, once its step may begin. A barrier has no jitter."""
        word = phase | self._round << _ROUND_SHIFT | k
        if self._jitter is None or self._plan.bucket[k] == self._plan.buckets:
            neighbour.push(word, self._views[k], self._rank[k], self._sums.turn[k])
        else:
            due_s = self._jitter.due_s(self._plan.klass[k], is_sum=phase == _SUM)
            self._held_back += 1
            heapq.heappush(self._later, (due_s, self._held_back, neighbour, word, k))

    def _summed(self, k: int) -> None:
        """Pass chunk k down: it holds the sum of all workers."""
        for neighbour in self._forward[self._plan.klass[k]]:
            self._push(neighbour, k, _SUM)
        self._complete(k)
        if (gate := self._sums.agreed(k)) is not None:
            self._open(gate)
        if (later := self._sums.windows.summed(k)) is not None:
            self._reduced(later)

    def _complete(self, k: int) -> None:
        """Count chunk k as complete: it has been passed on for the last time."""
        self._sums.leave(k)
        bucket = self._plan.bucket[k]
        self._missing[bucket] -= 1
        if self._missing[bucket] == 0:
            self._bucket_complete_s[bucket] = time.monotonic()
        self._remaining -= 1
        if self._remaining == 0:
            self._complete_s = time.monotonic()
