"""A model, cut by a strategy: the steps of each server, the boundary tensors that cross between them, how long a step
is to take, and which is next.

A server runs an operator that it holds once forward and once backward in an iteration, for all samples that it serves:
those of a contiguous range of servers. Each edge between two operators moves the first one's outputs forward, and their
gradients back. Both ends make the same list of messages, so a message's number is all that needs to be said of it.

A pace (``compute.pace``) is the time for a whole gradient of one server's batch. An operator's share of it is that of
its multiply-adds, once for each server whose batch it serves; a backward pass takes twice as long as a forward pass.

The next step is the first ready one, as in :mod:`testbed.workloads.parallel.prediction`. A message of the next
iteration may arrive before this one is over; one of the iteration after that cannot. Its sender has computed with the
weights that this server's answer to the message before led to.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from testbed.workloads.job import Compute
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.prediction import BACKWARD, FLOP_OF_AN_ITERATION
from testbed.workloads.parallel.strategy import Holders, Strategy, holder_of

Phase = Literal["forward", "backward"]
PHASES: tuple[Phase, Phase] = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Message:
    """A boundary tensor of each iteration: outputs of ``producer`` for some samples, or their gradient.

    Attributes:
        number: its place in the list of all, the same on every server.
        producer, consumer: places of two operators, joined by an edge.
        src, dst: servers; a message to itself does not leave a server.
        servers: those whose samples it is of, in order.
        bytes: in float32.
    """

    number: int
    phase: Phase
    producer: int
    consumer: int
    src: int
    dst: int
    servers: range
    bytes: int

    @property
    def is_local(self) -> bool:
        return self.src == self.dst


@dataclass(frozen=True, slots=True)
class Step:
    """A pass of an operator on one server, for all samples that it serves.

    Attributes:
        place: the operator's, in the model.
        servers: those whose samples it is of.
        needs: messages that must be there, and ``gives`` those that it makes; local ones are among both.
        ends: whether nobody takes the operator's output. Then the forward pass finds the loss, and the backward pass
            needs nothing but that.
    """

    phase: Phase
    place: int
    servers: range
    needs: tuple[Message, ...]
    gives: tuple[Message, ...]
    ends: bool


def messages(model: Model, strategy: Strategy) -> tuple[Message, ...]:
    """List all messages of an iteration. Those between different servers add up to
    :func:`~testbed.workloads.parallel.strategy.mp_bytes`."""
    found: list[Message] = []
    for phase in PHASES:
        for consumer, inputs in enumerate(model.inputs):
            for producer in inputs:
                each = model.samples * model.operators[producer].output_bytes
                for a, b, servers in _shared(strategy, producer, consumer):
                    src, dst = (a, b) if phase == "forward" else (b, a)
                    size = len(servers) * each
                    found.append(Message(len(found), phase, producer, consumer, src, dst, servers, size))
    return tuple(found)


def _shared(strategy: Strategy, producer: int, consumer: int) -> Iterator[tuple[int, int, range]]:
    """Yield a holder of each, and the contiguous servers whose samples both serve."""
    pairs = zip(*(holder_of(strategy.servers, strategy.holders[one]) for one in (producer, consumer)), strict=True)
    for (a, b), group in groupby(enumerate(pairs), key=lambda numbered: numbered[1]):
        servers = [server for server, _ in group]
        yield a, b, range(servers[0], servers[-1] + 1)


def served(strategy: Strategy, holders: Holders, server: int) -> range:
    """Return the servers whose samples a holder serves: those that
    :func:`~testbed.workloads.parallel.strategy.holder_of` gives it."""
    nth = holders.index(server)
    first, end = (-(-at * strategy.servers // len(holders)) for at in (nth, nth + 1))
    return range(first, end)


class Ends:
    """Messages by the steps at their ends. It is made once for all servers, which then need not look at each other's
    messages.

    Attributes:
        needed: by server, phase and operator, the messages that the step needs, in order.
        given: likewise, those that it makes.
    """

    def __init__(self, every: Iterable[Message]) -> None:
        self.needed: dict[tuple[int, Phase, int], list[Message]] = defaultdict(list)
        self.given: dict[tuple[int, Phase, int], list[Message]] = defaultdict(list)
        for message in every:
            ends = message.producer, message.consumer
            maker, taker = ends if message.phase == "forward" else ends[::-1]
            self.needed[message.dst, message.phase, taker].append(message)
            self.given[message.src, message.phase, maker].append(message)


def steps(model: Model, strategy: Strategy, server: int, ends: Ends) -> tuple[Step, ...]:
    """List the steps of one server in an iteration, in an order that works: forward, then back. ``ends`` are those of
    all messages."""
    held = [place for place, holders in enumerate(strategy.holders) if server in holders]
    return tuple(
        Step(
            phase,
            place,
            served(strategy, strategy.holders[place], server),
            tuple(ends.needed.get((server, phase, place), ())),
            tuple(ends.given.get((server, phase, place), ())),
            not model.consumers[place],
        )
        for phase in PHASES
        for place in (held if phase == "forward" else held[::-1])
    )


def step_s(model: Model, step: Step, pace_s: float) -> float:
    """Compute the time (s) of a step."""
    passes = BACKWARD if step.phase == "backward" else 1
    share = model.operators[step.place].multiply_adds / model.multiply_adds
    return pace_s * share * len(step.servers) * passes / (1 + BACKWARD)


def flop_per_s(model: Model, pace_s: float) -> float:
    """Return the speed of a :class:`testbed.workloads.parallel.prediction.Machine` on which steps take these times."""
    return FLOP_OF_AN_ITERATION * model.multiply_adds * model.samples / pace_s


class Clock:
    """Ideal clock of a server that takes one step at a time: when each step ends, and how long the server waits for
    messages.

    A step that was computed too late is counted, and the server makes up for it in the steps that follow: a step of a
    table may have a pace of less time than a processor needs for it.

    Attributes:
        wait_s: of this iteration, the time without a step to take, by the phase of the step that was missing.
        overrun_s: of this iteration, by how much the latest step missed its due time; 0 unless paced.
    """

    def __init__(self, model: Model, compute: Compute) -> None:
        self._model, self._compute = model, compute
        self._free_s = 0.0
        self._factor, self._extra_s = 1.0, 0.0
        self.wait_s: dict[Phase, float] = {}
        self.overrun_s = 0.0

    def begin(self, iteration: int, now_s: float) -> None:
        """Begin an iteration; a straggler's extra time belongs to its first step."""
        self._factor, self._extra_s = self._compute.slowdown(iteration)
        self._free_s = now_s
        self.wait_s, self.overrun_s = dict.fromkeys(PHASES, 0.0), 0.0

    def due_s(self, step: Step, ready_s: float, now_s: float) -> float:
        """Return when the next step ends, so that its results may leave: it is computed by ``now_s``, and all that it
        needs was there at ``ready_s``."""
        began_s = max(ready_s, self._free_s)
        self.wait_s[step.phase] += began_s - self._free_s
        extra_s, self._extra_s = self._extra_s, 0.0
        if self._compute.mode == "paced":
            self._free_s = began_s + self._factor * step_s(self._model, step, self._compute.pace_s) + extra_s
            self.overrun_s = max(self.overrun_s, now_s - self._free_s)
        else:
            self._free_s = now_s + (self._factor - 1) * (now_s - began_s) + extra_s
        return self._free_s


class Agenda:
    """The steps of one server, again in each iteration. Their order changes only how long others wait."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._needed_by = {message.number: at for at, step in enumerate(steps) for message in step.needs}
        self._remote = {message.number for step in steps for message in step.needs if not message.is_local}
        self._backward = {step.place: at for at, step in enumerate(steps) if step.phase == "backward"}
        self._there = set(self._needed_by)
        """Messages of this iteration. Before the first one, all that arrives is for the next."""
        self._early: list[int] = []
        self._missing: list[int] = []
        self._ready: deque[tuple[Step, float]] = deque()
        self._left = 0

    @property
    def is_over(self) -> bool:
        """Whether all steps of this iteration are done."""
        return not self._left

    @property
    def expects(self) -> bool:
        """Whether messages of this iteration are still to come from other servers."""
        return not self._remote <= self._there

    def begin(self, now_s: float) -> None:
        """Begin the next iteration; the last one :attr:`is_over`."""
        self._left = len(self._steps)
        self._missing = [len(step.needs) for step in self._steps]
        for at, step in enumerate(self._steps):
            if step.ends and step.phase == "backward":
                self._missing[at] += 1  # its forward pass
            elif not step.needs:
                self._ready.append((step, now_s))
        early, self._early = self._early, []
        self._there.clear()
        for number in early:
            self.arrived(number, now_s)

    def arrived(self, number: int, now_s: float) -> None:
        """Note that a message has come."""
        if number in self._there:
            self._early.append(number)
            return
        self._there.add(number)
        self._less(self._needed_by[number], now_s)

    def next(self) -> tuple[Step, float] | None:
        """Return the step to take now and when all that it needs was there; None if none is ready."""
        return self._ready.popleft() if self._ready else None

    def done(self, step: Step, now_s: float) -> None:
        """Note that a step that :meth:`next` gave is done, and its local messages are there."""
        self._left -= 1
        if step.ends and step.phase == "forward":
            self._less(self._backward[step.place], now_s)
        for message in step.gives:
            if message.is_local:
                self.arrived(message.number, now_s)

    def _less(self, at: int, now_s: float) -> None:
        """Note that a step lacks one thing less."""
        self._missing[at] -= 1
        if not self._missing[at]:
            self._ready.append((self._steps[at], now_s))
