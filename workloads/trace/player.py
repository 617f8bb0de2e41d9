"""A rank of a script that does what a trace says: ``python -P -m testbed.workloads.trace.player FILE ...``.

It knows nothing of schemes. It asks ``torch.distributed`` for collectives and messages, as any script does, so a trial
moves, counts and checks them in the same way.

Nodes that compute wait, as long as they took. They follow an ideal clock: one begins when what it depends on was due to
end, so that late wake-ups do not add up. Values are whole numbers whose sums are exact (:mod:`..learning.replay`); each
result is checked at the beginning of the next iteration, before new values are made.
"""

from __future__ import annotations

import argparse
import heapq
import queue
import sys
import threading
import time
import warnings
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from testbed.base import marks
from testbed.base.errors import TestbedError, WorkerError
from testbed.base.listing import shortened
from testbed.workloads import kinds
from testbed.workloads.job import LARGEST
from testbed.workloads.learning.replay import PERIOD
from testbed.workloads.rank_job import RankJob
from testbed.workloads.trace import files
from testbed.workloads.trace.graph import Collective, Groups, Kind, Node, members_of, order

FLOAT_BYTES = 4
OF_FIXED_POINT = 1e-3
"""By how much a sum may be off where switches add, as a share of the largest that it can be."""
MOST_NAMED = 10
SCATTERED = (Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_BLOCK)
"""Collectives of which each rank has a part of the sum."""
Floats = NDArray[np.float32]
Over = queue.SimpleQueue[tuple[int, float, RuntimeError | None]]
"""Nodes that ended, with the moment, and the error of one that failed."""


class Buffer:
    """The arrays of one node: what this rank gives, what it gets, and what that must be.

    Members' values of an iteration are pieces of one sequence, each from another place on.
    """

    def __init__(self, node: Node, members: Sequence[int], rank: int, seed: int, floats: int) -> None:
        self._node, self._size, self._index = node, len(members), members.index(rank)
        parted = node.collective in (*SCATTERED, Collective.ALL_TO_ALL)
        self.floats = -(-floats // self._size) * self._size if parted else floats
        numbers = np.random.default_rng(seed)
        self._sequence = numbers.integers(-LARGEST, LARGEST, self.floats + PERIOD * (self._size + 1), dtype=np.int8)
        self.given = self.got = torch.zeros(self.floats)
        if node.collective == Collective.ALL_GATHER:
            self.got = torch.zeros(self.floats * self._size)
        elif parted:
            self.got = torch.zeros(self._part if node.collective in SCATTERED else self.floats)

    def fill(self, iteration: int) -> None:
        """Write this rank's values of an iteration."""
        if self._node.kind == Kind.COMM_RECV:
            self.got.zero_()
        else:
            self.given.numpy()[:] = self._of(self._index, iteration)

    def wrong(self, iteration: int, tolerance: float) -> int:
        """Count the elements that are not what they must be."""
        right = self._right(iteration)
        if right is None:
            return 0
        got = self.got.numpy()
        if tolerance:
            return int(np.count_nonzero(~(np.abs(got - right) <= tolerance)))
        return int(np.count_nonzero(got != right))

    def _of(self, index: int, iteration: int) -> NDArray[np.int8]:
        begin = PERIOD * index + iteration % PERIOD
        return self._sequence[begin : begin + self.floats]

    def _sum(self, iteration: int) -> Floats:
        found = np.zeros(self.floats, np.float32)
        for index in range(self._size):
            found += self._of(index, iteration)
        return found

    def _right(self, iteration: int) -> NDArray[Any] | None:
        """Return what this rank must have; None where it gets nothing."""
        kind, part = self._node.collective, slice(self._part * self._index, self._part * (self._index + 1))
        if self._node.kind == Kind.COMM_SEND:
            return None
        if self._node.kind == Kind.COMM_RECV:
            return self._of(0, iteration)
        if kind == Collective.ALL_REDUCE or (kind == Collective.REDUCE and self._index == self._node.root):
            return self._sum(iteration)
        if kind in SCATTERED:
            return self._sum(iteration)[part]
        if kind == Collective.BROADCAST:
            return self._of(self._node.root, iteration)
        if kind == Collective.ALL_GATHER:
            return np.concatenate([self._of(index, iteration) for index in range(self._size)])
        if kind == Collective.ALL_TO_ALL:
            return np.concatenate([self._of(index, iteration)[part] for index in range(self._size)])
        return None

    @property
    def _part(self) -> int:
        return self.floats // self._size


class Player:
    """A rank's nodes, played once an iteration."""

    def __init__(self, rank: int, nodes: Sequence[Node], groups: Groups, world: int, scale: float, pace: float) -> None:
        """Set up.

        Args:
            nodes: in order (:func:`.graph.order`).
            pace: what the time of each node that computes is multiplied by.
        """
        self._rank, self._pace = rank, pace
        self._nodes = {node.id: node for node in nodes}
        self._place = {node.id: (-node.priority, number) for number, node in enumerate(nodes)}
        self._later: dict[int, list[int]] = defaultdict(list)
        self._waits_for = {node.id: len(set(node.before)) for node in nodes}
        for node in nodes:
            for number in set(node.before):
                self._later[number].append(node.id)
        self._members = {node.id: members_of(node, range(world), groups) for node in nodes}
        made = {ranks: dist.new_group(list(ranks)) for ranks in sorted(set(groups.values())) if len(ranks) < world}
        self._groups = {node.id: made.get(self._members[node.id]) for node in nodes}
        self._turns: dict[tuple[int, ...], list[int]] = defaultdict(list)
        """By group, ids of its collectives in the order in which all ranks ask for them."""
        counts: Counter[object] = Counter()
        self._buffers: dict[int, Buffer] = {}
        for node in nodes:
            if node.computes or node.collective == Collective.BARRIER:
                key: object = None
            elif node.kind == Kind.COMM_COLL:
                key = self._members[node.id]
            else:
                ends = (rank, node.peer) if node.kind == Kind.COMM_SEND else (node.peer, rank)
                key = (*ends, node.tag, "message")
            if node.kind == Kind.COMM_COLL:
                self._turns[self._members[node.id]].append(node.id)
            if key is not None:
                seed, own = zlib.crc32(repr((key, counts[key])).encode()), node.kind == Kind.COMM_COLL
                counts[key] += 1
                floats = max(1, round(node.bytes / scale / FLOAT_BYTES))
                self._buffers[node.id] = Buffer(node, self._members[node.id] if own else (rank,), rank, seed, floats)

    def prepare(self, iteration: int) -> None:
        """Make the values of an iteration."""
        for buffer in self._buffers.values():
            buffer.fill(iteration)

    def check(self, iteration: int, tolerance: float) -> None:
        """
        Raises:
            WorkerError: a result of the iteration is wrong.
        """
        for number, buffer in self._buffers.items():
            if wrong := buffer.wrong(iteration, tolerance * len(self._members[number]) * LARGEST):
                raise WorkerError(
                    f"rank {self._rank}: {wrong} of {buffer.floats} elements of {self._nodes[number]} are wrong in "
                    f"iteration {iteration}",
                    fix="run the trial again; if it happens again, take another scheme",
                )

    def play(self, begun_s: float) -> None:
        """Play one iteration, which began at that moment (``time.monotonic``).

        Raises:
            WorkerError: a collective or a message failed.
        """
        left = dict(self._waits_for)
        due_s: dict[int, float] = defaultdict(lambda: begun_s)  # when all that a node waits for was done
        free_s: dict[tuple[bool, int], float] = defaultdict(lambda: begun_s)
        turns = {members: deque(ids) for members, ids in self._turns.items()}
        ready = [(*self._place[number], number) for number, count in left.items() if not count]
        heapq.heapify(ready)
        early: set[int] = set()  # collectives that are ready, and have to wait for their group's turn
        waiting: dict[int, Any] = {}  # works by node
        watched: set[int] = set()  # nodes whose end is put into ``over``
        computing: list[tuple[float, int]] = []
        streams: dict[tuple[bool, int], list[tuple[int, int, int]]] = defaultdict(list)
        busy: set[tuple[bool, int]] = set()
        over: Over = queue.SimpleQueue()
        done = 0

        def compute(stream: tuple[bool, int]) -> None:
            number = heapq.heappop(streams[stream])[-1]
            busy.add(stream)
            free_s[stream] = max(free_s[stream], due_s[number]) + self._pace * self._nodes[number].duration_us * 1e-6
            heapq.heappush(computing, (free_s[stream], number))

        def end(number: int, at_s: float) -> None:
            nonlocal done
            done += 1
            for other in self._later[number]:
                left[other] -= 1
                due_s[other] = max(due_s[other], at_s)
                if not left[other]:
                    heapq.heappush(ready, (*self._place[other], other))

        while done < len(self._nodes):
            while ready:
                place = heapq.heappop(ready)
                number = place[-1]
                node = self._nodes[number]
                if node.computes:
                    heapq.heappush(streams[node.stream], place)
                elif node.kind == Kind.COMM_COLL:
                    early.add(number)
                    own = turns[self._members[number]]
                    while own and own[0] in early:
                        first = own.popleft()
                        waiting[first] = self._issue(first)
                else:
                    waiting[number] = self._issue(number)
            for stream, some in streams.items():
                if some and stream not in busy:
                    compute(stream)
            wait_s = max(0.0, computing[0][0] - time.monotonic()) if computing else None
            if computing and wait_s == 0.0:
                at_s, number = heapq.heappop(computing)
                busy.discard(self._nodes[number].stream)
                end(number, at_s)
                continue
            if not computing and len(waiting) == 1 and not watched:  # a wait that is seen as one
                ((number, work),) = waiting.items()
                error = _error_of(work.wait)
                at_s = time.monotonic()
            else:
                for number in waiting.keys() - watched:
                    _watch(number, waiting[number], over)
                    watched.add(number)
                try:
                    number, at_s, error = over.get(timeout=wait_s)
                except queue.Empty:
                    continue
                watched.remove(number)
            if error is not None:
                raise self._failed(number, error, waiting)
            del waiting[number]
            end(number, at_s)

    def _failed(self, number: int, error: RuntimeError, waiting: Iterable[int]) -> WorkerError:
        others = [str(self._nodes[one]) for one in sorted(waiting) if one != number]
        more = f"; also waiting: {shortened(others, MOST_NAMED)}" if others else ""
        return WorkerError(
            f"rank {self._rank}: {self._nodes[number]} failed: {error}{more}", fix="see the logs of other ranks"
        )

    def _issue(self, number: int) -> Any:
        """Ask for a collective or a message; return its work."""
        node, group = self._nodes[number], self._groups[number]
        if node.collective == Collective.BARRIER:
            return dist.barrier(group=group, async_op=True)
        buffer = self._buffers[number]
        given, got = buffer.given, buffer.got
        if node.kind == Kind.COMM_SEND:
            return dist.isend(given, node.peer, tag=node.tag)
        if node.kind == Kind.COMM_RECV:
            return dist.irecv(got, node.peer, tag=node.tag)
        root = self._members[number][node.root] if node.root < len(self._members[number]) else 0
        ask: dict[Collective, Callable[[], Any]] = {
            Collective.ALL_REDUCE: lambda: dist.all_reduce(given, group=group, async_op=True),
            Collective.REDUCE: lambda: dist.reduce(given, root, group=group, async_op=True),
            Collective.BROADCAST: lambda: dist.broadcast(given, root, group=group, async_op=True),
            Collective.ALL_GATHER: lambda: dist.all_gather_into_tensor(got, given, group=group, async_op=True),
            **dict.fromkeys(SCATTERED, lambda: dist.reduce_scatter_tensor(got, given, group=group, async_op=True)),
            Collective.ALL_TO_ALL: lambda: dist.all_to_all_single(got, given, group=group, async_op=True),
        }
        assert node.collective is not None
        return ask[node.collective]()


def _watch(number: int, work: Any, over: Over) -> None:
    """Have a node put into ``over`` when its work is done."""
    try:
        future = work.get_future()
    except RuntimeError:  # messages of Gloo's have none
        threading.Thread(target=_wait, args=(number, work, over), daemon=True).start()
        return
    future.add_done_callback(lambda done: over.put((number, time.monotonic(), _error_of(done.value))))


def _wait(number: int, work: Any, over: Over) -> None:
    error = _error_of(work.wait)
    over.put((number, time.monotonic(), error))


def _error_of(result: Callable[[], Any]) -> RuntimeError | None:
    """Return the error that asking for a result raises, if it does."""
    try:
        result()
    except RuntimeError as error:
        return error
    return None


def _tolerance() -> float:
    """Return by how much sums of this trial may be off, as a share of the largest that they can be."""
    job = RankJob.of_environment()
    return OF_FIXED_POINT if job and getattr(kinds.load(Path(job.plan)), "fixed", None) is not None else 0.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--groups")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--pace", type=float, default=1.0)
    return parser.parse_args()


def _open(path: Path) -> Any:
    return path.open("rb")


def main() -> None:
    asked = _arguments()
    warnings.filterwarnings("ignore", category=FutureWarning)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    own_rank = asked.first + rank
    read, groups = files.read(Path(files.of_rank(asked.file, own_rank)), _open, rank=own_rank)
    if asked.groups:
        groups = files.read_groups(Path(asked.groups), _open)
    own = [node._replace(peer=node.peer - asked.first) if node.peer >= 0 else node for node in read.nodes]
    nodes = order(own, f"rank {rank}")
    shifted = {name: tuple(one - asked.first for one in ranks) for name, ranks in groups.items()}
    player, tolerance = Player(rank, nodes, shifted, world, asked.scale, asked.pace), _tolerance()
    player.prepare(0)
    dist.barrier()
    for iteration in range(asked.iterations):
        begun_s = time.monotonic()
        if iteration:
            player.check(iteration - 1, tolerance)
            player.prepare(iteration)
        player.play(begun_s)
        print(f"iteration {time.monotonic() - begun_s:.6f} s", flush=True)
        marks.mark()
    player.check(asked.iterations - 1, tolerance)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except TestbedError as error:
        sys.exit(f"error: {error}")
