"""Ranks of a trace in simulated time, with the lines that they would have written as ranks of a script.

Ranks go through the agenda that :mod:`.player` goes through, and the kind of trial says what a collective moves. Nodes
that compute take exactly their time. Other work of a real rank is left out: processor time, the making of values and
their check, and the barrier before the first iteration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from testbed.base.errors import TrialError
from testbed.base.listing import shortened
from testbed.workloads.kinds.ranks import PAIRED, Collected
from testbed.workloads.play.exchange import Exchange, Moved
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.trace.agenda import Agenda
from testbed.workloads.trace.graph import MOST_NAMED, ROOTED, Collective, Kind, Node, Trace, floats_of

OPS = {
    Collective.ALL_REDUCE: "allreduce",
    Collective.REDUCE: "reduce",
    Collective.ALL_GATHER: "all_gather",
    Collective.GATHER: "gather",
    Collective.SCATTER: "scatter",
    Collective.BROADCAST: "broadcast",
    Collective.ALL_TO_ALL: "all_to_all",
    Collective.REDUCE_SCATTER: "reduce_scatter",
    Collective.REDUCE_SCATTER_BLOCK: "reduce_scatter",
    Collective.BARRIER: "barrier",
}
"""Names of collectives in ``torch.distributed``."""
GATHERED = (Collective.ALL_GATHER, Collective.GATHER)

Moves = Callable[[Sequence[int], Collected], tuple[Sequence[Moved], str]]
"""Says what moves in a collective of some ranks, and who moves it."""
Key = tuple[Any, ...]


class _Asked:
    """A collective or message that some ranks have asked for, until all of them have it."""

    def __init__(self, key: Key, ranks: Sequence[int], moved: Sequence[Moved], by: str) -> None:
        self.key, self.by = key, by
        self.exchanges: list[tuple[Moved, Exchange]] = []
        self.left = {rank: len(moved) for rank in ranks}
        """By rank, parts that it has not ended."""
        self.asked: dict[int, tuple[int, dict[str, Any]]] = {}
        """By rank, its node and its row."""


class Ranks:
    """All ranks of a trace.

    Args:
        nodes: of the network, by rank.
        ticks: called with the number of iterations that rank 0 has done.

    Attributes:
        lines: by rank, its rows and marks; moments are simulated (s).
        iterations_s: by rank, how long each iteration took.
    """

    def __init__(
        self, trace: Trace, nodes: Sequence[int], moves: Moves, wires: Wires, ticks: Callable[[int], None]
    ) -> None:
        self._trace, self._nodes, self._moves, self._wires, self._ticks = trace, nodes, moves, wires, ticks
        self._rank_of = {node: rank for rank, node in enumerate(nodes)}
        world = len(nodes)
        self._agendas = [Agenda(trace.ranks[rank], range(world), trace.groups, trace.pace) for rank in range(world)]
        some = sorted({ranks for ranks in trace.groups.values() if len(ranks) < world})
        self._groups = {ranks: number for number, ranks in enumerate(some, 1)}
        self._asked: dict[Key, _Asked] = {}
        self._counts: list[Counter[Key]] = [Counter() for _ in range(world)]
        self._numbers: list[Counter[Key]] = [Counter() for _ in range(world)]
        self._begun_s = [0.0] * world
        self._wakes_s = [-1.0] * world
        groups = [{"kind": "group", "group": number, "ranks": list(ranks)} for ranks, number in self._groups.items()]
        self.lines: list[list[dict[str, Any]]] = [list(groups) for _ in range(world)]
        self.iterations_s: list[list[float]] = [[] for _ in range(world)]

    def play(self) -> None:
        """Play all iterations.

        Raises:
            TrialError: ranks wait for what never comes.
        """
        for rank, agenda in enumerate(self._agendas):
            agenda.begin(0.0)
            self._wires.soon(partial(self._go, rank))
        self._wires.run()
        late = [rank for rank, done in enumerate(self.iterations_s) if len(done) < self._trace.iterations]
        if late:
            raise self._stuck(late)

    def _stuck(self, late: Sequence[int]) -> TrialError:
        waits: dict[int, list[str]] = defaultdict(list)
        for asked in self._asked.values():
            for rank, (number, _) in asked.asked.items():
                waits[rank].append(str(self._agendas[rank].nodes[number]))
        told = "; ".join(f"rank {rank} waits for {shortened(waits[rank], MOST_NAMED)}" for rank in late[:MOST_NAMED])
        return TrialError(
            f"nothing moves after {self._wires.now_s:.9f} s of simulated time: {told}",
            fix="let blocked links come back, or correct the order of the trace's nodes",
        )

    def _go(self, rank: int) -> None:
        """Let a rank do what it can do now."""
        agenda, now_s = self._agendas[rank], self._wires.now_s
        while True:
            for number in agenda.issued():
                self._issue(rank, agenda.nodes[number])
            if agenda.due_s <= now_s:
                agenda.computed()
            elif not agenda.is_over:
                break
            elif self._is_last(rank):
                return
        if agenda.due_s not in (self._wakes_s[rank], float("inf")):
            self._wakes_s[rank] = agenda.due_s
            self._wires.at(agenda.due_s, partial(self._go, rank))

    def _is_last(self, rank: int) -> bool:
        """End a rank's iteration; begin the next one, unless it was the last."""
        now_s, done = self._wires.now_s, self.iterations_s[rank]
        done.append(now_s - self._begun_s[rank])
        self.lines[rank].append({"kind": "mark", "iteration": len(done) - 1, "time": now_s})
        self._begun_s[rank] = now_s
        if not rank:
            self._ticks(len(done))
        if len(done) == self._trace.iterations:
            return True
        self._agendas[rank].begin(now_s)
        return False

    def _issue(self, rank: int, node: Node) -> None:
        ranks, about, key = self._about(rank, node)
        number = self._counts[rank][key]
        self._counts[rank][key] += 1
        asked = self._asked.get((*key, number))
        if asked is None:
            moved, by = self._moves(ranks, about)
            asked = self._asked[*key, number] = _Asked((*key, number), ranks, moved, by)
            for part in moved:
                came = partial(self._came, asked)
                asked.exchanges.append((part, Exchange(part, self._wires, came, partial(self._ended, asked))))
                for other in ranks:
                    asked.left[other] -= self._nodes[other] not in part.forest.workers
        op = "recv" if node.kind == Kind.COMM_RECV else about.op
        group = 0 if op in PAIRED else self._groups.get(tuple(ranks), 0)
        now_s = self._wires.now_s
        row = {
            "kind": "call",
            "op": op,
            "bytes": about.nbytes,
            "ranks": len(self._nodes) if op in PAIRED else len(ranks),
            "dtype": "int32" if op == "barrier" else "float32",
            "group": group,
            "by": asked.by,
            "seq": self._numbers[rank][group, op in PAIRED],
            "asked_s": now_s,
            "begun_s": now_s,
            "waited_s": None,
            "root": node.peer if op in PAIRED else about.root if about.root >= 0 else None,
        }
        self._numbers[rank][group, op in PAIRED] += 1
        asked.asked[rank] = node.id, row
        own = self._nodes[rank]
        if not asked.left[rank]:
            self._wires.soon(partial(self._over, asked, rank))
        for part, exchange in asked.exchanges:
            if own in part.forest.workers:
                exchange.begin(own)

    def _about(self, rank: int, node: Node) -> tuple[Sequence[int], Collected, Key]:
        """Return the ranks of a node's collective or message, what moves, and what all of them call it."""
        if node.collective is None:
            ends = node.ends(rank)
            size = FLOAT_BYTES * floats_of(node, self._trace.scale, 1)
            return ends, Collected("send", size), (*ends, node.tag, "message")
        ranks = self._agendas[rank].members[node.id]
        if node.collective == Collective.BARRIER:
            return ranks, Collected("barrier", FLOAT_BYTES), (ranks,)
        size = FLOAT_BYTES * floats_of(node, self._trace.scale, len(ranks))
        size *= len(ranks) if node.collective in GATHERED else 1
        root = (node.root if node.root < len(ranks) else 0) if node.collective in ROOTED else -1
        return ranks, Collected(OPS[node.collective], size, root), (ranks,)

    def _came(self, asked: _Asked, node: int) -> None:
        rank = self._rank_of.get(node)
        if rank in asked.asked:
            asked.asked[rank][1].setdefault("came_s", self._wires.now_s)

    def _ended(self, asked: _Asked, node: int) -> None:
        rank = self._rank_of.get(node)
        if rank is not None:
            asked.left[rank] -= 1
            if not asked.left[rank]:
                self._wires.soon(partial(self._over, asked, rank))

    def _over(self, asked: _Asked, rank: int) -> None:
        number, row = asked.asked.pop(rank)
        del asked.left[rank]
        if not asked.left:
            del self._asked[asked.key]
        self.lines[rank].append({**row, "done_s": self._wires.now_s})
        self._agendas[rank].end(number, self._wires.now_s)
        self._go(rank)
