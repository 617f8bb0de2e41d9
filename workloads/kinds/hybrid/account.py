"""What a hybrid trial has done: bytes between servers, and for how long servers waited for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from workloads.kinds.base import Told
from workloads.kinds.hybrid.plan import Plan

WAITS = ("mp_wait_forward_s", "mp_wait_backward_s")
"""By phase, for how long a server had nothing to compute in an iteration for want of messages."""


def told(plan: Plan, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """The samples, and by phase the median over iterations of the mean wait of a server.

    Raises:
        WorkerError: a server has sent another one more or fewer bytes than the plan says.
    """
    sent = {
        (plan.nodes.index(line["name"]), int(other)): count
        for line in done
        for other, count in line["payload_bytes"].items()
    }
    expected = {(src, dst): iterations * round(count) for src, dst, count in plan.flows}
    for src, dst in sorted({*sent, *expected}):
        found, right = sent.get((src, dst), 0), expected.get((src, dst), 0)
        if found != right:
            raise WorkerError(
                f"{plan.nodes[src]} sent {found:,} bytes of messages and sums to {plan.nodes[dst]}, where the plan of "
                f"{iterations} iterations has {right:,}",
                fix="this is a mistake in testbed; please report it",
            )
    waits_s = samples.groupby("iteration")[list(WAITS)].mean().median()
    return Told(samples, metrics={name: float(waits_s[name]) for name in WAITS})
