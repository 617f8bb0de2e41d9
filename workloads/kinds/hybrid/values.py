"""Messages of known values: they are made before they leave, and checked when they arrive, element by element.

As in :mod:`testbed.workloads.learning.replay` they are pieces of one random sequence, which begin at another place for
each message and each iteration, so that what is left over from another one is wrong in about fifteen of sixteen
elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.hybrid.exchange import Buffers, Floats
from testbed.workloads.kinds.hybrid.program.cut import Message, Step
from testbed.workloads.learning.replay import PERIOD, Values
from testbed.workloads.parallel.operators import FLOAT_BYTES


class MessageValues:
    """The messages of one server.

    Attributes:
        buffers: where its messages are sent from and received into.
        checked: elements that were looked at, and how many of them were ``wrong``.
    """

    def __init__(self, every: Sequence[Message], server: int, seed: int) -> None:
        self._sequence = _sequence(every, seed)
        self.buffers = Buffers(
            {one.number: (one.dst, _room(one)) for one in every if one.src == server and not one.is_local},
            {one.number: (one.src, _room(one)) for one in every if one.dst == server and not one.is_local},
        )
        self.checked = self.wrong = 0
        self._seen = dict.fromkeys(self.buffers.incoming, 0)

    def make(self, number: int, iteration: int) -> None:
        """Write the message of an iteration, which is about to leave."""
        _, buffer = self.buffers.outgoing[number]
        buffer[:] = self._piece(number, iteration, len(buffer))

    def check(self, number: int) -> None:
        """Count the wrong elements of a message that has arrived: at the first call those of iteration 0, and so on."""
        _, buffer = self.buffers.incoming[number]
        right = self._piece(number, self._seen[number], len(buffer))
        self._seen[number] += 1
        self.checked += len(buffer)
        self.wrong += int(np.count_nonzero(buffer != right))

    def _piece(self, number: int, iteration: int, floats: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        begin = PERIOD * number + iteration % PERIOD
        return self._sequence[begin : begin + floats]


class KnownValues:
    """The work of a server that plays a profile: messages, and gradients whose sums are checked.

    Attributes:
        messages, sums: those that are sent and received, and the gradients with what their groups' sums must be.
        checked: how many sums were looked at.
        wrong: by iteration, how many elements of sums and messages were wrong, where any were.
    """

    def __init__(self, messages: MessageValues, sums: Values) -> None:
        self.sums = sums
        self.messages = messages
        self.checked = 0
        self.wrong: dict[int, int] = {}
        self._iteration = self._before = -1
        self._wrong_messages = 0
        """Elements of messages of the iteration before."""

    def begin(self, iteration: int) -> None:
        """Begin an iteration."""
        self._before, self._iteration = self._iteration, iteration
        self._wrong_messages, self.messages.wrong = self.messages.wrong, 0

    def before_sums(self) -> Iterator[None]:
        """Check the sum of the iteration before, and make this one's gradient."""
        yield from self._check(self._before)
        yield from self.sums.filling(self._iteration)

    def while_summing(self) -> Iterator[None]:
        """Do nothing."""
        return iter(())

    def received(self, number: int) -> None:
        """Check a message that has come, maybe one of the next iteration."""
        self.messages.check(number)

    def compute(self, step: Step) -> None:
        """Make the results of a step."""
        for message in step.gives:
            if not message.is_local:
                self.messages.make(message.number, self._iteration)

    def finish(self) -> None:
        """Check the sum of the last iteration."""
        self._wrong_messages = self.messages.wrong
        for _ in self._check(self._iteration):
            pass

    def _check(self, iteration: int) -> Iterator[None]:
        """Count the wrong elements of an iteration's sum, and of its messages."""
        if iteration < 0:
            return
        count = self._wrong_messages
        for differ in self.sums.looking(iteration):
            count += differ
            yield
        self.checked += 1
        if count:
            self.wrong[iteration] = count


def _room(message: Message) -> Floats:
    """Make room for a message, and write to it now: the kernel gives memory at the first write, which is not to be in
    an iteration."""
    return np.full(message.bytes // FLOAT_BYTES, 0.0, np.float32)


def _sequence(every: Sequence[Message], seed: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Make a sequence that is long enough for the last message's last iteration."""
    longest = max((one.bytes // FLOAT_BYTES for one in every), default=0)
    return np.random.default_rng(seed).integers(-LARGEST, LARGEST, longest + PERIOD * (len(every) + 1), dtype=np.int8)
