"""A rank of a script that does what a trace says: ``python -P -m testbed.workloads.trace.player FILE ...``.

It knows nothing of schemes. It asks ``torch.distributed`` for collectives and messages, as any script does, so a trial
moves, counts and checks them in the same way.

Nodes are issued as :mod:`.agenda` says; those that compute wait, as long as they took. Values are whole numbers whose
sums are exact (:mod:`..learning.replay`); each result is checked at the beginning of the next iteration, before new
values are made.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import sys
import threading
import time
import warnings
import zlib
from collections import Counter
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
from testbed.workloads.rank_job import LONGEST_POSITION, RankJob
from testbed.workloads.trace import files
from testbed.workloads.trace.agenda import Agenda
from testbed.workloads.trace.graph import (
    MOST_NAMED,
    PARTED,
    Collective,
    Groups,
    Kind,
    Node,
    counted_from,
    floats_of,
    order,
    prioritised,
    within,
)

OF_FIXED_POINT = 1e-3
"""By how much a sum may be off where switches add, as a share of the largest that it can be."""
SCATTERED = (Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_BLOCK)
"""Collectives of which each rank has a part of the sum."""
Floats = NDArray[np.float32]
Over = queue.SimpleQueue[tuple[int, float, RuntimeError | None]]
"""Nodes that ended, with the moment, and the error of one that failed."""


class Buffer:
    """The arrays of one node: what this rank gives, what it gets, and what that must be. Members' values of an
    iteration are pieces of one sequence, each from another place on."""

    def __init__(self, node: Node, members: Sequence[int], rank: int, seed: int, floats: int) -> None:
        self._node, self._size, self._index = node, len(members), members.index(rank)
        self.floats = floats
        numbers = np.random.default_rng(seed)
        self._sequence = numbers.integers(-LARGEST, LARGEST, self.floats + PERIOD * (self._size + 1), dtype=np.int8)
        self.given = self.got = torch.zeros(self.floats)
        if node.collective in (Collective.ALL_GATHER, Collective.GATHER):
            self.got = torch.zeros(self.floats * self._size)
        elif node.collective in PARTED:
            self.got = torch.zeros(self.floats if node.collective == Collective.ALL_TO_ALL else self._part)

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
        if kind == Collective.SCATTER:
            return self._of(self._node.root, iteration)[part]
        if kind == Collective.ALL_GATHER or (kind == Collective.GATHER and self._index == self._node.root):
            return np.concatenate([self._of(index, iteration) for index in range(self._size)])
        if kind == Collective.ALL_TO_ALL:
            return np.concatenate([self._of(index, iteration)[part] for index in range(self._size)])
        return None

    @property
    def _part(self) -> int:
        return self.floats // self._size


class Position:
    """The file in which a rank keeps the nodes that it is at: the kernel still has it when the rank is killed."""

    def __init__(self, path: str) -> None:
        """Keep nothing where ``path`` is empty, as outside of a trial."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600) if path else None

    def keep(self, text: str) -> None:
        if self._file is not None:
            os.pwrite(self._file, text.encode()[:LONGEST_POSITION].ljust(LONGEST_POSITION), 0)


class Player:
    """A rank's nodes, played once an iteration."""

    def __init__(self, rank: int, nodes: Sequence[Node], groups: Groups, world: int, scale: float, pace: float) -> None:
        """Set up.

        Args:
            nodes: in order (:func:`.graph.order`). In a trial, receives get the priorities that the rank's job has.
            pace: what the time of each node that computes is multiplied by.
        """
        self._rank = rank
        job = RankJob.of_environment()
        self._position = Position(job.position if job else "")
        nodes = prioritised(nodes, job.priorities) if job else nodes
        self._agenda = Agenda(nodes, range(world), groups, pace)
        self._nodes = self._agenda.nodes
        made = {ranks: dist.new_group(list(ranks)) for ranks in sorted(set(groups.values())) if len(ranks) < world}
        self._groups = {number: made.get(members) for number, members in self._agenda.members.items()}
        counts: Counter[object] = Counter()
        self._buffers: dict[int, Buffer] = {}
        for node in nodes:
            if node.computes or node.collective == Collective.BARRIER:
                continue
            members = self._agenda.members.get(node.id)
            key: object = members or (*node.ends(rank), node.tag, "message")
            seed = zlib.crc32(repr((key, counts[key])).encode())
            counts[key] += 1
            among = members or (rank,)
            self._buffers[node.id] = Buffer(node, among, rank, seed, floats_of(node, scale, len(among)))

    def prepare(self, iteration: int) -> None:
        """Make the values of an iteration."""
        for buffer in self._buffers.values():
            buffer.fill(iteration)

    def check(self, iteration: int, tolerance: float) -> None:
        """Raise WorkerError if a result of the iteration is wrong."""
        for number, buffer in self._buffers.items():
            if wrong := buffer.wrong(iteration, tolerance * len(self._agenda.members.get(number, ())) * LARGEST):
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
        agenda = self._agenda
        agenda.begin(begun_s)
        waiting: dict[int, Any] = {}  # works by node
        watched: set[int] = set()  # nodes whose end is put into ``over``
        over: Over = queue.SimpleQueue()
        while not agenda.is_over:
            for number in agenda.issued():
                waiting[number] = self._issue(number)
            self._position.keep(self._named([*agenda.computing, *waiting]))
            wait_s = max(0.0, agenda.due_s - time.monotonic())
            if wait_s == 0.0:
                agenda.computed()
                continue
            if math.isinf(wait_s) and len(waiting) == 1 and not watched:  # a wait that is seen as one
                ((number, work),) = waiting.items()
                error = _error_of(work.wait)
                at_s = time.monotonic()
            else:
                for number in waiting.keys() - watched:
                    _watch(number, waiting[number], over)
                    watched.add(number)
                try:
                    number, at_s, error = over.get(timeout=None if math.isinf(wait_s) else wait_s)
                except queue.Empty:
                    continue
                watched.remove(number)
            if error is not None:
                raise self._failed(number, error, waiting)
            del waiting[number]
            agenda.end(number, at_s)
        self._position.keep("")

    def _named(self, numbers: Sequence[int]) -> str:
        told = [str(self._nodes[number]) for number in numbers[:MOST_NAMED]]
        return shortened(told + [""] * (len(numbers) - len(told)), MOST_NAMED)

    def _failed(self, number: int, error: RuntimeError, waiting: Iterable[int]) -> WorkerError:
        others = sorted(set(waiting) - {number})
        more = f"; also waiting: {self._named(others)}" if others else ""
        return WorkerError(
            f"rank {self._rank}: {self._nodes[number]} failed: {error}{more}", fix="see the logs of other ranks"
        )

    def _issue(self, number: int) -> Any:
        """Ask for a collective or a message; return its work."""
        node, group = self._nodes[number], self._groups.get(number)
        if node.collective == Collective.BARRIER:
            return dist.barrier(group=group, async_op=True)
        buffer = self._buffers[number]
        given, got = buffer.given, buffer.got
        if node.kind == Kind.COMM_SEND:
            return dist.isend(given, node.peer, tag=node.tag)
        if node.kind == Kind.COMM_RECV:
            return dist.irecv(got, node.peer, tag=node.tag)
        members = self._agenda.members[number]
        root = members[node.root] if node.root < len(members) else 0
        ask: dict[Collective, Callable[[], Any]] = {
            Collective.ALL_REDUCE: lambda: dist.all_reduce(given, group=group, async_op=True),
            Collective.REDUCE: lambda: dist.reduce(given, root, group=group, async_op=True),
            Collective.BROADCAST: lambda: dist.broadcast(given, root, group=group, async_op=True),
            Collective.ALL_GATHER: lambda: dist.all_gather_into_tensor(got, given, group=group, async_op=True),
            **dict.fromkeys(SCATTERED, lambda: dist.reduce_scatter_tensor(got, given, group=group, async_op=True)),
            Collective.GATHER: lambda: dist.gather(
                given, list(got.chunk(len(members))) if root == self._rank else None, root, group=group, async_op=True
            ),
            Collective.SCATTER: lambda: dist.scatter(
                got, list(given.chunk(len(members))) if root == self._rank else None, root, group=group, async_op=True
            ),
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


def _of_all(own: Groups, world: int) -> Groups:
    """Return the groups of all ranks: a rank's host trace tells only those that it is in, and all ranks make all groups
    in the same order."""
    told: list[Groups] = [{}] * world
    dist.all_gather_object(told, own)
    return {name: ranks for groups in told for name, ranks in groups.items()}


def main() -> None:
    asked = _arguments()
    warnings.filterwarnings("ignore", category=FutureWarning)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    own_rank = asked.first + rank
    read, groups = files.read(Path(files.of_rank(asked.file, own_rank)), _open, rank=own_rank)
    if asked.groups:
        groups = files.read_groups(Path(asked.groups), _open)
    elif asked.file.endswith(".json"):
        groups = _of_all(groups, world)
    own, groups = counted_from(asked.first, read.nodes, groups)
    nodes, groups = order(own, f"rank {rank}"), within(range(world), groups)
    player, tolerance = Player(rank, nodes, groups, world, asked.scale, asked.pace), _tolerance()
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
