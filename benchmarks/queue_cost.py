"""The cost of sampling queues: JCT with it over JCT without it.

    python benchmarks/queue_cost.py [--pairs N]

While a trial runs, the lab's process reads from the kernel what waits at every egress, up to 50 times a second. Trials
of nine workers that fill 18 links, which keeps two cores busy for a third of the time, run in pairs, with and without,
in an order that alternates. Reach: the median of the ratios at most 1.02.
"""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack
from typing import Any
from unittest import mock

import in_pairs

from testbed.lab.netns import NetnsLab


def measure(sampled: bool) -> dict[str, Any]:
    """The record of one trial."""
    with ExitStack() as changes:
        if not sampled:
            changes.enter_context(mock.patch.object(NetnsLab, "watch_queues", return_value=False))
        record = in_pairs.trial()
    assert (record["queues"] is not None) is sampled, record["queues"]
    return record


def main(arguments: list[str]) -> int:
    """Print the table; 0 when sampling costs no more than the reach."""
    found = in_pairs.measured("What sampling queues costs.", arguments, measure)
    each_s = statistics.median(one["queues"]["cost_s"] / one["queues"]["readings"] for one in found[True])
    return in_pairs.told(found, ("JCT sampled", "JCT without"), {"CPU a reading": f"{1e3 * each_s:.3f} ms"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
