"""One server's iterations, played at a pace: its passes when what they need is there, then the AllReduces.

Passes follow an ideal clock, as in :mod:`workloads.replay`: each takes its share of the pace from when the one before
it was due to end, or from when the last message that it needed was there. Meanwhile messages move.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from workloads.kinds.hybrid.exchange import ExchangeEngine
from workloads.kinds.hybrid.plan import Plan
from workloads.kinds.hybrid.program.agenda import Agenda
from workloads.kinds.hybrid.program.cut import PHASES, Phase, Step, steps
from workloads.kinds.hybrid.program.pace import step_s
from workloads.kinds.hybrid.values import MessageValues


@dataclass(frozen=True)
class Played:
    """An iteration; moments are those of ``time.monotonic``.

    Attributes:
        ready_s: when all passes were done, and the AllReduces began.
        sum_s: when all sums of this server's groups were there.
        mp_wait_s: by phase, for how long the server had nothing to compute for want of messages. A wait is of the
            forward phase while passes of that are left.
    """

    start_s: float
    ready_s: float
    sum_s: float
    mp_wait_s: dict[Phase, float]


class Player:
    """Plays the passes of one server."""

    def __init__(
        self, plan: Plan, server: int, engine: ExchangeEngine, values: MessageValues, pace_s: float, timeout_s: float
    ) -> None:
        """``pace_s`` is what a whole pass of the model, forward and back, takes one server for its own batch.

        ``timeout_s`` is for how long nothing may move.
        """
        found = steps(plan.model, plan.strategy, server, plan.messages)
        self._engine, self._values, self._timeout_s = engine, values, timeout_s
        self._agenda = Agenda(found)
        self._step_s = {(one.phase, one.place): step_s(plan.model, one, pace_s) for one in found}
        self._forward_steps = sum(one.phase == "forward" for one in found)

    def iteration(self, number: int) -> Played:
        """Play the one of this number; they come in turn, from 0 on.

        Raises:
            TrialTimeoutError, WorkerError: a neighbour is silent or gone.
        """
        agenda, engine = self._agenda, self._engine
        start_s = clock_s = time.monotonic()
        waited_s = dict.fromkeys(PHASES, 0.0)
        forward_left = self._forward_steps
        engine.expect()
        agenda.begin()
        while not agenda.is_over:
            self._hear()
            step = agenda.next()
            if step is None:
                engine.wait_message(self._timeout_s)
                now_s = time.monotonic()
                waited_s["forward" if forward_left else "backward"] += max(0.0, now_s - clock_s)
                clock_s = max(clock_s, now_s)
                continue
            clock_s += self._step_s[step.phase, step.place]
            self._compute(step, number, clock_s)
            forward_left -= step.phase == "forward"
        ready_s = time.monotonic()
        engine.start(0)
        return Played(start_s, ready_s, engine.wait(self._timeout_s), waited_s)

    def _hear(self) -> None:
        """Check what has arrived, and note it."""
        for number in self._engine.arrived():
            self._values.check(number)
            self._agenda.arrived(number)

    def _compute(self, step: Step, iteration: int, due_s: float) -> None:
        """Be busy until then, and send what the pass makes."""
        sent = [message.number for message in step.gives if not message.is_local]
        for number in sent:
            self._values.make(number, iteration)
        while (left_s := due_s - time.monotonic()) > 0:
            self._engine.poll(left_s)
        for number in sent:
            self._engine.send(number)
        self._agenda.done(step)
