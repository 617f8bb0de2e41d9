"""A worker that is told other plans while it trains: our engine, which switches between two iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds.forest.node import join as join_forest
from testbed.workloads.kinds.tuned.ballot import Ballot
from testbed.workloads.kinds.tuned.kind import MOST_LINES, MOST_SAID
from testbed.workloads.process.told import Lines
from testbed.workloads.sync.bundle import Sockets
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.compiled import CompiledEngine
from testbed.workloads.sync.engine import Engine, Floats
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.neighbours import Neighbours
from testbed.workloads.sync.told_plans import NAME

if TYPE_CHECKING:
    from testbed.workloads.tasks.base import Participant


class Tuning(Engine):
    """An engine that switches to plans that all workers have. It looks for them between iterations, where nothing is
    measured."""

    _lines: Lines
    _ballot: Ballot
    _write: Callable[..., None]

    def __init__(
        self,
        node: int,
        forest: Forest,
        chunks: ChunkTable,
        sockets: Sockets,
        gradient: Floats | None = None,
        **options: Any,
    ) -> None:
        super().__init__(node, forest, replace(chunks, has_tally=True), sockets, gradient, **options)
        self._neighbours = Neighbours(sockets)

    def follow(self, path: Path, first: Forest) -> None:
        """Read plans from the lines of a file; ``first`` is the present one."""
        self._lines, self._ballot = Lines(path), Ballot(first)

    def tells(self, write: Callable[..., None]) -> None:
        self._write = write

    def iterations(self, done: int, total: int) -> Iterator[int]:
        for i in range(done, total):
            if (agreed := self._ballot.count(float(self.tally[0]))) is not None:
                self.replan(agreed)
            left_out = [why for line in self._lines.new() if (why := self._ballot.take(line))]
            for why in left_out[:MOST_LINES]:
                self._write(iteration=i, left_out=why[:MOST_SAID], lines=len(left_out))
            self.tally[0] = self._ballot.vote()
            yield i

    @property
    def seen(self) -> Mapping[str, Any]:
        """Fields of the last iteration: the number of its plan, the bytes sent to each neighbour, and how fast."""
        return {"plan": self._ballot.plan, **self._neighbours.look()}


class CompiledTuning(Tuning, CompiledEngine):
    """A :class:`Tuning` whose inner loop is compiled."""


def join(job: WorkerJob, forest: Forest, part: Participant | None, called_off: Callable[[], None]) -> Tuning:
    """Meet all other workers, as :func:`testbed.workloads.kinds.forest.node.join` does."""
    made = join_forest(job, forest, part, called_off, (Tuning, CompiledTuning))
    assert isinstance(made, Tuning)
    made.follow(Path(job.forest).parent / NAME, forest)
    return made
