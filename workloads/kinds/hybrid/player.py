"""The iterations of one server, played at a pace: each pass when the messages that it needs are there, then the
AllReduces.

Passes follow an ideal clock (:class:`.Clock`). While a pass takes its time, messages move.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from testbed.workloads.job import Compute
from testbed.workloads.kinds.hybrid.exchange import ExchangeEngine
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.steps import Agenda, Clock, Ends, Phase, Step, steps


class Work(Protocol):
    """The computing of a server, one iteration after another."""

    def begin(self, iteration: int) -> None:
        """Begin an iteration."""

    def received(self, number: int) -> None:
        """Take a message that has come, maybe one of the next iteration."""

    def compute(self, step: Step) -> None:
        """Take a step whose messages are all there; its results are then in the buffers that they are sent from."""

    def before_sums(self) -> Iterator[None]:
        """Yield while doing chores that come before an iteration's sums and are no step of its model, a little at a
        time: while steps take their time."""
        return iter(())

    def while_summing(self) -> Iterator[None]:
        """Yield while doing chores that can be done once the sums have begun, a little at a time."""
        return iter(())


@dataclass(frozen=True)
class Played:
    """An iteration; moments are those of ``time.monotonic``.

    Attributes:
        ready_s: when all passes were done, and the AllReduces began.
        sum_s: when all sums of this server's groups were there.
        mp_wait_s: by phase, for how long the server had nothing to compute for want of messages.
        overrun_s: by how much the latest pass missed its due time.
        late_s: by how much all passes were done after the last one was due; as overrun_s, 0 unless paced.
        compute_s: how long computing really took.
    """

    start_s: float
    ready_s: float
    sum_s: float
    mp_wait_s: dict[Phase, float]
    overrun_s: float
    late_s: float
    compute_s: float


class Player:
    """Plays the passes of one server."""

    def __init__(
        self, plan: Plan, server: int, engine: ExchangeEngine, work: Work, compute: Compute, timeout_s: float
    ) -> None:
        """Set up; ``timeout_s`` is for how long nothing may move."""
        self._engine, self._work, self._timeout_s = engine, work, timeout_s
        self._agenda = Agenda(steps(plan.model, plan.strategy, server, Ends(plan.messages)))
        self._clock = Clock(plan.model, compute)
        self._compute_s = self._late_s = self._due_s = 0.0
        self._is_paced = compute.mode == "paced"
        self._ahead: deque[tuple[Step, float, float]] = deque()
        """Steps that were computed while the one before took its time: when their needs were there, and when they were
        computed. Machines of their own would need no time between two steps."""
        self._chores: Iterator[None] = iter(())

    def iteration(self, number: int, release: Callable[[int], None]) -> Played:
        """Play the iteration of this number; they come in turn, from 0 on. ``release`` starts a bucket of the engine's.

        Raises:
            TrialTimeoutError, WorkerError: a neighbour is silent or gone.
        """
        start_s = time.monotonic()
        self._engine.expect()
        self._clock.begin(number, start_s)
        self._agenda.begin(start_s)
        self._work.begin(number)
        self._chores = self._work.before_sums()
        self._compute_s, self._late_s = time.monotonic() - start_s, 0.0
        while not self._agenda.is_over:
            self._hear()
            if self._ahead:
                self._take(*self._ahead.popleft())
            elif found := self._agenda.next():
                self._take(*self._computed(*found))
            elif self._has_done_a_chore():
                self._engine.poll(0.0)
            else:
                self._engine.wait_message(self._timeout_s)
        self._wait(self._due_s)
        while self._has_done_a_chore():
            self._engine.poll(0.0)
        ready_s = time.monotonic()
        release(0)
        self._chores = self._work.while_summing()
        while self._has_done_a_chore():
            self._engine.poll(0.0)
        sum_s = self._engine.wait(self._timeout_s)
        overrun_s = max(self._clock.overrun_s, self._late_s)
        late_s = max(0.0, ready_s - self._due_s) if self._is_paced else 0.0
        return Played(start_s, ready_s, sum_s, self._clock.wait_s, overrun_s, late_s, self._compute_s)

    def _hear(self) -> None:
        """Take what has arrived, and note it."""
        for number, moment_s in self._engine.arrived():
            self._work.received(number)
            self._agenda.arrived(number, moment_s)

    def _computed(self, step: Step, there_s: float) -> tuple[Step, float, float]:
        """Compute a step whose needs were there at ``there_s``; return it, that moment, and when it was done."""
        begun_s = time.monotonic()
        self._work.compute(step)
        now_s = time.monotonic()
        self._compute_s += now_s - begun_s
        return step, there_s, now_s

    def _take(self, step: Step, there_s: float, computed_s: float) -> None:
        """Be busy for as long as the computed step takes, and send its results. If it sends nothing, and no message can
        change what is next, wait at the end of the next step only: waking up often takes longer than some paces."""
        due_s = self._due_s = self._clock.due_s(step, there_s, computed_s)
        sent = [message.number for message in step.gives if not message.is_local]
        if sent or self._agenda.expects:
            self._wait(due_s)
        for number in sent:
            self._engine.send(number)
        self._hear()  # what came meanwhile is there before what this step leads to
        self._agenda.done(step, due_s)

    def _wait(self, due_s: float) -> None:
        """Wait until then; meanwhile let messages move, compute the next step, and do chores."""
        while (left_s := due_s - time.monotonic()) > 0:
            found = self._agenda.next() if self._is_paced else None
            if found is None:
                self._engine.poll(0.0 if self._has_done_a_chore() else left_s)
            else:
                self._ahead.append(self._computed(*found))
                self._late_s = max(self._late_s, time.monotonic() - due_s)

    def _has_done_a_chore(self) -> bool:
        """Do a little of the chores besides steps, and say whether any was left."""
        begun_s = time.monotonic()
        is_left = next(self._chores, self) is not self
        self._compute_s += time.monotonic() - begun_s
        return is_left
