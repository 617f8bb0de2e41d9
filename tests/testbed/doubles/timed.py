"""A controller that switches a job's plan by a timer, as far as the harness sees."""

from __future__ import annotations

import math

from testbed.control.feed import LOOK_S, Feed
from testbed.control.registry import Context
from testbed.trial.phases import Cause
from testbed.workloads.sync.schemes import build

AFTER = 2
"""Iterations after which the timer ends."""


class Timed:
    """Tells that all follow the plan of ``scheme`` from the third iteration on."""

    is_urgent = False
    scheme = "ring"

    def __init__(self, context: Context) -> None:
        self._context = context

    def look(self, feed: Feed) -> float:
        feed.look()
        if feed.ended_s(AFTER - 1) is None:
            return LOOK_S
        job = self._context.trial.job
        plan = build(self.scheme, job.network.topology, job.gradient.tensors)
        self._context.replan(job, AFTER, plan, Cause("timer", f"{AFTER} iterations were done"))
        return math.inf
