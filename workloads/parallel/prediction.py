"""Prediction of an iteration's time: a task graph of computations and transfers, played on servers and links.

TopoOpt's FlexNet (section 5.1) extends FlexFlow's simulator by the network; so does this.

- A forward pass of an operator starts on a holder when the outputs of its inputs are there, for all samples that the
  holder serves; a backward pass when the gradients of its output are. Each server computes one operator at a time,
  first ready, first served.
- A transfer goes over each link of its route, first come, first served. It is pipelined: a link begins when the first
  chunk is there.
- An operator's AllReduce starts when its last holder has the gradient, and puts bytes on links along the edges of its
  forest. MP transfers go first on a link, and AllReduce has what they leave: nothing waits for it but the end.
- A link's end is when it has sent all, plus the delays of an AllReduce's rounds: the longest of the AllReduces that it
  has got since it last had nothing to send, for they end after the transfers that pass them. The iteration ends with
  the last pass and the last link.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.workloads.parallel.network import Network, Routes
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.strategy import Strategy, gradients, held_bytes, served

FLOP_PER_MULTIPLY_ADD = 2
BACKWARD = 2
"""Cost of a backward pass in forward passes: two products of each layer, for its inputs and its weights."""
FLOP_OF_AN_ITERATION = FLOP_PER_MULTIPLY_ADD * (1 + BACKWARD)
"""Floating-point operations of an iteration for each multiply-add of a sample's forward pass."""
MOMENT_S = 1e-12
"""Least gap (s) between two transfers that counts: a shorter one comes from rounding."""
CHUNK_BYTES = 128 * 2**10
"""Default size of a workload's chunks."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A server. TopoOpt gives no times of computation; these numbers are assumed.

    Attributes:
        flop_per_s: what it computes.
        memory_bytes: for weights and outputs; a strategy that needs more takes for ever.
        chunk_bytes: what must have arrived of a transfer before the next link begins.
        overlaps: whether a holder has its gradient for an AllReduce as soon as its backward pass ends; otherwise when
            all its passes of the iteration have ended, as our trials play it.
    """

    flop_per_s: float = 10e12
    memory_bytes: float = 40e9
    chunk_bytes: float = CHUNK_BYTES
    overlaps: bool = True

    def __post_init__(self) -> None:
        for name in ("flop_per_s", "memory_bytes", "chunk_bytes"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise SpecError(f"{name} is {value:g}", fix=f"give {name} above 0")


@dataclass(frozen=True, slots=True)
class Step:
    """A computation, transfer or AllReduce of the critical path.

    An AllReduce that transfers have passed on the link is there once for each part.

    Attributes:
        what: ``forward dense0``, ``backward e1``, ``output of e1``, ``gradient of e1``, ``AllReduce of dense0``.
        where: the server; or the directed link, by its two ends.
        end_s: when its part on that link was done.
    """

    what: str
    where: str
    start_s: float
    end_s: float


def stages(path: Sequence[Step]) -> list[Step]:
    """Join steps of one sort in one place in a critical path: ``output of e0 and 3 more``."""
    found = []
    for (sort, where), group in groupby(path, lambda step: (step.what.rsplit(" ", 1)[0], step.where)):
        steps = list(group)
        more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
        end_s = max(step.end_s for step in steps)
        found.append(Step(f"{sort} {steps[0].what.removeprefix(sort).strip()}{more}", where, steps[0].start_s, end_s))
    return found


@dataclass(frozen=True, eq=False)
class Prediction:
    """Prediction of one iteration.

    Attributes:
        iteration_s: infinite if a server has too little memory; all else is empty then.
        pair_bytes: float64[n, n], MP transfers and AllReduce, by source and destination.
        link_bytes: float64[2 x links], by directed link.
        critical_path: from the start to the end; each step begins when the one before it lets it.
    """

    iteration_s: float
    pair_bytes: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    critical_path: tuple[Step, ...]


def predict(model: Model, strategy: Strategy, network: Network, machine: Machine) -> Prediction:
    """Play one iteration.

    Raises:
        TopologyError: two servers that must exchange samples have no route.
    """
    if max(held_bytes(model, strategy)) > machine.memory_bytes:
        servers, links = network.servers, len(network.link_s_per_byte)
        return Prediction(math.inf, np.zeros((servers, servers)), np.zeros(links), ())
    playing = _Playing(model, strategy, network, machine)
    playing.play()
    return playing.told()


def iteration_s(model: Model, strategy: Strategy, network: Network, machine: Machine) -> float:
    """Return the ``iteration_s`` of :func:`predict` alone: a search needs nothing else, thousands of times.

    Raises:
        TopologyError: as :func:`predict`.
    """
    if max(held_bytes(model, strategy)) > machine.memory_bytes:
        return math.inf
    playing = _Playing(model, strategy, network, machine)
    playing.play()
    return playing.end_s


_Sent = tuple[float, int, tuple[int, ...], int, float, float, int, int, str, int]
"""A transfer on its way: when its first chunk is at the next link, the event's number, links, place of the next of
them, bytes, when the link before is done, the task that needs it, the record that it comes from, its kind, and the
operator. It is one flat tuple, as a search makes thousands of them for each step."""
_Other = tuple[float, int, int | list[_Sent]]
"""Another event: when it happens, the event's number, and a task that starts, or transfers that a pass sends, at their
first links. An operator's AllReduce is the task -1 - operator."""
_Queue = list[float]
"""The queue of a link: by turns a record's place in the log and its time on the link. It is one flat list for speed."""


_Following = tuple[Mapping[int, tuple[tuple[int, int, Routes], ...]], int, int, int]
"""The consequences of a pass: the sends of each server, the first task of those that need them, bytes of one server's
samples, and the operator whose output or gradient is sent."""
_PASSES = ("forward", "backward")
_TRANSFERS = ("output of", "gradient of")


@dataclass(slots=True)
class _Link:
    """A directed link, and the load that it has got so far.

    Attributes:
        free_s: when it has sent the transfers that it has got so far, and ``last`` the record of the last of them.
        drained_s: when it has sent all of it, AllReduce included, and ``queue`` what that is.
        rounds_s: of the AllReduces in the queue, the longest that the delays of all rounds take.
        sent_bytes: of transfers.
    """

    s_per_byte: float
    delay_s: float
    free_s: float = 0.0
    last: int = -1
    drained_s: float = 0.0
    queue: _Queue = field(default_factory=list)
    rounds_s: float = 0.0
    sent_bytes: float = 0.0


class _Playing:
    """Events in order of time, each with a record in ``log``. Task ``(phase x operators + operator) x servers +
    server`` is a forward (phase 0) or backward pass (1)."""

    def __init__(self, model: Model, strategy: Strategy, network: Network, machine: Machine) -> None:
        self.model, self.strategy, self.network, self.machine = model, strategy, network, machine
        self.holders, self.servers, self.count = strategy.holders, strategy.servers, len(model.operators)
        self.chunk_bytes = machine.chunk_bytes
        self.samples = [served(self.servers, holders) for holders in self.holders]
        self.sample_s = [FLOP_PER_MULTIPLY_ADD * one.multiply_adds / machine.flop_per_s for one in model.operators]
        self.events: list[_Other | _Sent] = []
        self.posted = 0
        self.log: list[tuple[float, float, int, str, int, int]] = []
        """Start, end, the record that it waited for or -1, what, operator, and server or link."""
        tasks = 2 * self.count * self.servers
        self.missing, self.ready_s, self.after = [0] * tasks, [0.0] * tasks, [-1] * tasks
        self.passes_left = [sum(server in holders for holders in self.holders) for server in range(self.servers)]
        """Backward passes that each server has still to make."""
        self.unsummed = [len(holders) for holders in self.holders]
        """Number of holders of each operator that have no gradient yet."""
        self.gradient_s, self.gradient_after = [0.0] * self.count, [-1] * self.count
        self.server_free_s, self.server_last = [0.0] * self.servers, [-1] * self.servers
        self.links = list(map(_Link, network.link_s_per_byte, network.link_delay_s))
        self.last: tuple[float, int, _Queue] = (0.0, 0, [])
        """The end of the queue that ended last so far, rounds included, its link, and what was in it."""
        self.pair_bytes = [[0.0] * self.servers for _ in range(self.servers)]
        self.follow: list[list[_Following]] = [[] for _ in range(2 * self.count)]
        """Consequences of each pass, by phase and operator."""
        self._graph()

    def _graph(self) -> None:
        for place, inputs in enumerate(self.model.inputs):
            for one in inputs:
                each = self.model.samples * self.model.operators[one].output_bytes
                self._edge(one, place, one, each)
                self._edge(self.count + place, self.count + one, one, each)
        for place, consumers in enumerate(self.model.consumers):
            for server in self.holders[place]:
                if not consumers:
                    self.missing[(self.count + place) * self.servers + server] = 1
                if not self.model.inputs[place]:
                    self._post(0.0, place * self.servers + server)

    def _edge(self, one: int, other: int, label: int, each: int) -> None:
        """Add the transfers from one pass to another, each a phase and an operator."""
        exchange = self.network.exchange(self.holders[one % self.count], self.holders[other % self.count])
        self.follow[one].append((exchange.sends, other * self.servers, each, label))
        for server, parts in exchange.parts:
            self.missing[other * self.servers + server] += parts

    def _post(self, time_s: float, what: int | list[_Sent]) -> None:
        heappush(self.events, (time_s, self.posted, what))
        self.posted += 1

    def play(self) -> None:
        events = self.events
        while events:
            event = heappop(events)
            if len(event) > 3:
                self._send(event)
                continue
            now_s, _, what = event
            if isinstance(what, list):
                for sent in what:
                    self._send(sent)
            elif what >= 0:
                self._compute(now_s, what)
            else:
                self._allreduce(now_s, -1 - what)
        for link in range(len(self.links)):
            self._end_queue(link)

    @property
    def end_s(self) -> float:
        """End of the iteration: of all passes, transfers and queues."""
        return max(*self.server_free_s, *(link.free_s for link in self.links), self.last[0])

    def told(self) -> Prediction:
        """Return the prediction that was played."""
        pair_bytes, link_bytes = (
            np.array(self.pair_bytes),
            self.network.with_lit(np.array([link.sent_bytes for link in self.links])),
        )
        for members, size in gradients(self.model, self.strategy).items():
            group = self.network.allreduce(members)
            pair_bytes += size * group.pair_bytes
            link_bytes += size * group.all_link_bytes
        return Prediction(self.end_s, pair_bytes, link_bytes, tuple(self._critical_path())[::-1])

    def _critical_path(self) -> Iterator[Step]:
        """Yield the steps from the end, which is that of a link's queue or a record, to the start."""
        ends_s = [end_s for _, end_s, _, _, _, _ in self.log]
        record = ends_s.index(max(ends_s))
        end_s, link, queue = self.last
        if queue and end_s >= self.log[record][1]:
            entries = [(int(record), seconds) for record, seconds in zip(queue[::2], queue[1::2], strict=True)]
            *before, last = self._sent(link, entries)
            yield replace(last, end_s=end_s)
            yield from reversed(before)
            record = self.log[entries[0][0]][2]
        while record >= 0:
            start_s, end_s, after, what, _, at = self.log[record]
            where = self.network.topology.nodes[at].name if what in _PASSES else self.network.name(at)
            yield self._step(record, where, start_s, end_s)
            record = after

    def _sent(self, link: int, entries: Sequence[tuple[int, float]]) -> Iterator[Step]:
        """Yield the steps of a link's queue as they were sent: AllReduce while there was no transfer."""
        where = self.network.name(link)
        transfers = [record for record, _ in entries if self.log[record][3] in _TRANSFERS]
        reduces = deque((record, seconds) for record, seconds in entries if self.log[record][3] not in _TRANSFERS)
        now_s = self.log[entries[0][0]][0]
        for transfer in [*transfers, -1]:
            start_s = self.log[transfer][0] if transfer >= 0 else math.inf
            while reduces and start_s - now_s > MOMENT_S:
                record, seconds = reduces.popleft()
                part_s = min(seconds, start_s - now_s)
                yield self._step(record, where, now_s, now_s + part_s)
                now_s += part_s
                if part_s < seconds:
                    reduces.appendleft((record, seconds - part_s))
            if transfer >= 0:
                now_s = self.log[transfer][1]
                yield self._step(transfer, where, start_s, now_s)

    def _step(self, record: int, where: str, start_s: float, end_s: float) -> Step:
        _, _, _, what, place, _ = self.log[record]
        return Step(f"{what} {self.model.operators[place].name}", where, start_s, end_s)

    def _compute(self, now_s: float, task: int) -> None:
        at, server = divmod(task, self.servers)
        phase, place = divmod(at, self.count)
        seconds = self.sample_s[place] * self.samples[place][server] * self.model.samples * (BACKWARD if phase else 1)
        start_s, after = now_s, self.after[task]
        if self.server_free_s[server] > now_s:
            start_s, after = self.server_free_s[server], self.server_last[server]
        end_s = self.server_free_s[server] = start_s + seconds
        record = self.server_last[server] = len(self.log)
        self.log.append((start_s, end_s, after, _PASSES[phase], place, server))
        what, sent_bytes = _TRANSFERS[phase], self.pair_bytes[server]
        for sends, tasks, each, label in self.follow[at]:
            leaving: list[_Sent] = []
            for to, servers, routes in sends[server]:
                task = tasks + to
                if not routes:  # to itself, which is first
                    self._arrive(task, end_s, record)
                    continue
                count = servers * each
                sent_bytes[to] += count
                for weight, links in routes:
                    leaving.append((end_s, 0, links, 0, count * weight, 0.0, task, record, what, label))
            if leaving:
                self._post(end_s, leaving)
        if phase:
            self._end_backward(place, server, end_s, record)
        elif not self.follow[at]:
            self._arrive((self.count + place) * self.servers + server, end_s, record)

    def _arrive(self, task: int, time_s: float, record: int) -> None:
        """Note that a part of a task's needs is there."""
        if time_s >= self.ready_s[task]:
            self.ready_s[task], self.after[task] = time_s, record
        self.missing[task] -= 1
        if not self.missing[task]:
            self._post(self.ready_s[task], task)

    def _send(self, sent: _Sent) -> None:
        """Send a transfer, whose first chunk is at a link."""
        now_s, _, links, hop, count, before_s, task, after, what, place = sent
        at = links[hop]
        link, chunk = self.links[at], self.chunk_bytes
        first_s = (count if count < chunk else chunk) * link.s_per_byte
        start_s = now_s
        if link.free_s > now_s:
            start_s, after = link.free_s, link.last
        end_s = start_s + count * link.s_per_byte
        if end_s < before_s + first_s:
            end_s = before_s + first_s
        link.free_s = end_s
        record = link.last = len(self.log)
        self.log.append((start_s, end_s, after, what, place, at))
        self._queue(at, now_s, end_s - start_s, record)
        link.sent_bytes += count
        if hop + 1 < len(links):
            there_s, before_s = start_s + first_s + link.delay_s, end_s + link.delay_s
            heappush(self.events, (there_s, self.posted, links, hop + 1, count, before_s, task, record, what, place))
            self.posted += 1
        else:
            self._arrive(task, end_s + link.delay_s, record)

    def _queue(self, at: int, now_s: float, seconds: float, record: int) -> None:
        """Add so much to what the link has to send, after what it has got before."""
        link = self.links[at]
        if link.drained_s > now_s:
            link.drained_s += seconds
        else:
            self._end_queue(at)
            link.drained_s = now_s + seconds
            link.queue = []
        link.queue.append(record)
        link.queue.append(seconds)

    def _end_queue(self, at: int) -> None:
        """Note that the link has sent all that it has got."""
        link = self.links[at]
        end_s = link.drained_s + link.rounds_s
        if end_s > self.last[0]:
            self.last = end_s, at, link.queue
        link.rounds_s = 0.0

    def _end_backward(self, place: int, server: int, time_s: float, record: int) -> None:
        """Note that a backward pass has ended on a server."""
        self.passes_left[server] -= 1
        if self.machine.overlaps:
            self._have_gradient(place, time_s, record)
        elif not self.passes_left[server]:
            for held in range(self.count):
                if server in self.holders[held]:
                    self._have_gradient(held, time_s, record)

    def _have_gradient(self, place: int, time_s: float, record: int) -> None:
        """Note that a holder of an operator has its gradient; the last of several starts the AllReduce."""
        if time_s >= self.gradient_s[place]:
            self.gradient_s[place], self.gradient_after[place] = time_s, record
        self.unsummed[place] -= 1
        if not self.unsummed[place] and len(self.holders[place]) > 1 and self.model.operators[place].weight_bytes:
            self._post(self.gradient_s[place], -1 - place)

    def _allreduce(self, now_s: float, place: int) -> None:
        group, weights = self.network.allreduce(self.holders[place]), self.model.operators[place].weight_bytes
        record = len(self.log)
        self.log.append((now_s, now_s, self.gradient_after[place], "AllReduce of", place, group.links[0]))
        for at, share in zip(group.links, group.link_bytes, strict=True):
            link = self.links[at]
            self._queue(at, now_s, share * weights * link.s_per_byte, record)
            if group.rounds_s > link.rounds_s:
                link.rounds_s = group.rounds_s
