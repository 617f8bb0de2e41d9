"""Account of a hybrid trial: bytes between servers, and how long servers waited for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.evidence import Exchanged
from testbed.workloads.kinds.hybrid.parts import WAITS, messages
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.sync.chunks import whole

LATE = "late_s"
"""Column of how long (s) after they were due all passes of a server were done."""


def told(plan: Plan, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """Return the samples, of which the waits by phase are metrics, and the bytes between servers.

    Raises:
        WorkerError: a server has sent another one more or fewer bytes than the plan says.
        LookupError: it tells of no bytes, or of a node that there is not.
    """
    numbers = {str(node): node for node in plan.workers}  # each in one spelling, and no others
    sent = {
        (plan.nodes.index(line["name"]), numbers[other]): count
        for line in done
        for other, count in line["payload_bytes"].items()
    }
    pairs = _pairs(plan, sent, iterations)
    for one in pairs:
        if one.bytes != one.theory_bytes:
            raise WorkerError(
                f"{plan.nodes[one.src]} sent {one.bytes:,} bytes of messages and sums to {plan.nodes[one.dst]}, where "
                f"the plan of {iterations} iterations has {one.theory_bytes:,}",
                fix="this is a mistake in testbed; please report it",
            )
    return Told(_with_overrun(samples), medians=WAITS, pairs=pairs)


def _with_overrun(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples, where no overrun is longer than the delay that it can have caused.

    A step that misses its due time may be made up for by the steps that follow. If no server waits for what it sends,
    and all are done in time, nothing has become longer. So the AllReduces of an iteration begin no later than they
    should by more than a server has waited and was late, whichever server has most of both.
    """
    most_s = (samples[[*WAITS, LATE]].sum(axis=1)).groupby(samples["iteration"]).transform("max")
    return samples.assign(overrun_s=samples["overrun_s"].clip(upper=most_s))


def _pairs(plan: Plan, sent: Mapping[tuple[int, int], int], iterations: int) -> list[Exchanged]:
    """List the bytes sent by source and destination, beside those of the plan, in order."""
    expected, tensors = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for one in messages(plan, whole(plan.forest, plan.gradient_floats)):
        expected[one.src, one.dst] += iterations * one.bytes
        tensors[one.src, one.dst] += iterations * one.bytes if one.what.klass < 0 else 0
    return [
        Exchanged(src, dst, sent.get((src, dst), 0), expected[src, dst], tensors[src, dst])
        for src, dst in sorted({*sent, *expected})
    ]
