"""The order in which a rank of a trace issues its nodes, for players in real and in simulated time.

A node is issued when those before it are done; of several, that with the largest priority first, then that which
:func:`.graph.order` has first. Collectives of a group wait for their turn, which is the same on all its ranks. Nodes
that compute, of one stream, follow each other on an ideal clock: one begins when what it depends on was due to end, so
that late wake-ups do not add up.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from testbed.base.errors import SpecError
from testbed.base.listing import shortened
from testbed.workloads.trace.graph import MOST_NAMED, Groups, Kind, Node, members_of

Stream = tuple[bool, int]


class Agenda:
    """A rank's nodes, by id, gone through once an iteration; ``members`` has, by id, the ranks of a collective's
    group."""

    def __init__(self, nodes: Sequence[Node], ranks: Collection[int], groups: Groups, pace: float) -> None:
        """Set up.

        Args:
            nodes: in order (:func:`.graph.order`).
            ranks: all ranks.
            pace: what the time of each node that computes is multiplied by.
        """
        self.nodes = {node.id: node for node in nodes}
        self.members = {node.id: members_of(node, ranks, groups) for node in nodes if node.kind == Kind.COMM_COLL}
        self._pace = pace
        self._place = {node.id: (-node.priority, number) for number, node in enumerate(nodes)}
        self._later: dict[int, list[int]] = defaultdict(list)
        for node in nodes:
            for number in set(node.before):
                self._later[number].append(node.id)

    def begin(self, now_s: float) -> None:
        """Begin an iteration."""
        self._left = {number: len(set(node.before)) for number, node in self.nodes.items()}
        self._undone = len(self.nodes)
        self._due_s: dict[int, float] = defaultdict(lambda: now_s)  # when all that a node waits for was done
        self._free_s: dict[Stream, float] = defaultdict(lambda: now_s)
        self._turns: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
        for number, members in self.members.items():
            self._turns[members].append(number)
        self._ready = [(*self._place[number], number) for number, count in self._left.items() if not count]
        heapq.heapify(self._ready)
        self._early: set[int] = set()  # collectives that are ready, and wait for their turn
        self._streams: dict[Stream, list[tuple[int, int, int]]] = defaultdict(list)
        self._computing: list[tuple[float, int]] = []
        self._busy: set[Stream] = set()

    @property
    def is_over(self) -> bool:
        """Whether all nodes of the iteration are done."""
        return not self._undone

    @property
    def due_s(self) -> float:
        """When the next node that computes is due to end; infinite if none computes."""
        return self._computing[0][0] if self._computing else math.inf

    @property
    def computing(self) -> list[int]:
        """The nodes that compute, the one that is due first at the beginning."""
        return [number for _, number in sorted(self._computing)]

    def issued(self) -> Iterator[int]:
        """Yield the messages and collectives that are to be issued now; begin the nodes that compute."""
        while self._ready:
            place = heapq.heappop(self._ready)
            node = self.nodes[place[-1]]
            if node.computes:
                heapq.heappush(self._streams[node.stream], place)
            elif node.id in self.members:
                self._early.add(node.id)
                turns = self._turns[self.members[node.id]]
                while turns and turns[0] in self._early:
                    yield turns.popleft()
            else:
                yield node.id
        for stream, waiting in self._streams.items():
            if waiting and stream not in self._busy:
                number = heapq.heappop(waiting)[-1]
                self._busy.add(stream)
                begin_s = max(self._free_s[stream], self._due_s[number])
                self._free_s[stream] = begin_s + self._pace * self.nodes[number].duration_us * 1e-6
                heapq.heappush(self._computing, (self._free_s[stream], number))

    def computed(self) -> None:
        """End the node that computes and is due first."""
        at_s, number = heapq.heappop(self._computing)
        self._busy.discard(self.nodes[number].stream)
        self.end(number, at_s)

    def end(self, number: int, at_s: float) -> None:
        """Note that a node ended at that moment."""
        self._undone -= 1
        for other in self._later[number]:
            self._left[other] -= 1
            self._due_s[other] = max(self._due_s[other], at_s)
            if not self._left[other]:
                heapq.heappush(self._ready, (*self._place[other], other))


def check_ends(ranks: Mapping[int, Sequence[Node]], groups: Groups) -> None:
    """Check that ranks do not wait for each other for ever, where each send ends at once.

    Raises:
        SpecError: some do; the error names them and the nodes that they wait for.
    """
    agendas = {rank: Agenda(nodes, ranks, groups, 0.0) for rank, nodes in ranks.items()}
    numbers: Counter[object] = Counter()
    asked: dict[object, dict[int, int]] = defaultdict(dict)
    going = deque(agendas)

    def issue(rank: int, node: Node) -> Iterator[tuple[int, int]]:
        """Yield the ranks, with their nodes, that go on because a rank issues this one."""
        members, is_sent = agendas[rank].members.get(node.id), node.kind == Kind.COMM_SEND
        key = members or (*node.ends(rank), node.tag)
        place = (members is None, key, numbers[rank, members is None, key])
        numbers[rank, members is None, key] += 1
        asked[place][rank] = node.id
        if is_sent:
            yield rank, node.id
        if len(asked[place]) == (len(members) if members else 2):
            for other, number in asked.pop(place).items():
                if members or other == key[1]:
                    yield other, number

    for agenda in agendas.values():
        agenda.begin(0.0)
    while going:
        rank = going.popleft()
        agenda = agendas[rank]
        for number in list(agenda.issued()):
            for other, ended in issue(rank, agenda.nodes[number]):
                agendas[other].end(ended, 0.0)
                going.append(other)
        while agenda.due_s < math.inf:
            agenda.computed()
            going.append(rank)
    late = [rank for rank, agenda in agendas.items() if not agenda.is_over]
    if late:
        waits = {rank: str(ranks[rank][0]) for rank in late}
        for some in asked.values():
            nodes = {rank: agendas[rank].nodes[number] for rank, number in some.items()}
            waits |= {rank: str(node) for rank, node in nodes.items() if node.kind != Kind.COMM_SEND}
        told = shortened([f"rank {rank} for {waits[rank]}" for rank in late], MOST_NAMED)
        raise SpecError(f"ranks wait for each other for ever: {told}", fix="correct what these nodes depend on")
