"""A model, cut by a strategy: the steps of each server, and the boundary tensors that cross between them.

A server runs an operator that it holds once forward and once backward in an iteration, for all samples that it serves:
those of a contiguous range of servers. Each edge between two operators moves the first one's outputs forward, and their
gradients back. Both ends make the same list of messages, so a message's number is all that needs to be said of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from testbed.workloads.parallel.operators import Model
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
    """Yield a holder of each, and the servers whose samples both serve: contiguous, for holders are taken in rising
    order."""
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
            self.needed[message.dst, message.phase, _taker(message)].append(message)
            self.given[message.src, message.phase, _maker(message)].append(message)


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


def _maker(message: Message) -> int:
    """Return the operator whose pass makes the message."""
    return message.producer if message.phase == "forward" else message.consumer


def _taker(message: Message) -> int:
    """Return the operator whose pass needs the message."""
    return message.consumer if message.phase == "forward" else message.producer
