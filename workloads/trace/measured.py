"""Iterations that were measured as a trace: what each rank computed, and the sums that followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from testbed.workloads.trace.graph import Collective, Kind, Node


class Iteration(NamedTuple):
    """Moments of an iteration of one rank (s): its beginning, its gradient, its sum, its end."""

    start_s: float
    ready_s: float
    sum_s: float
    end_s: float


class Bucket(NamedTuple):
    """A part of the gradient that is summed by itself.

    Attributes:
        bytes: its size.
        due: the share of the gradient's computing after which it is complete.
    """

    bytes: int
    due: float = 1.0


def collectives(iterations: Iterable[Iteration], buckets: Sequence[Bucket]) -> list[Node]:
    """Return the nodes of a rank: for each iteration one that computes each bucket, the bucket's sum, which waits for
    nothing else, and one for the step, which waits for all of them."""
    found: list[Node] = []

    def add(named: str, after: Sequence[int], **fields: Any) -> int:
        found.append(Node(len(found), named, after=tuple(after), stream=(False, 0), **fields))
        return len(found) - 1

    before: list[int] = []
    for number, one in enumerate(iterations):
        computes_us, step_us = (1e6 * max(0.0, took_s) for took_s in (one.ready_s - one.start_s, one.end_s - one.sum_s))
        name, sums, done_us = f"iteration {number}", [], 0
        for place, bucket in enumerate(buckets):
            part = "" if len(buckets) == 1 else f" of bucket {place}"
            took_us = round(computes_us * bucket.due) - done_us
            done_us += took_us
            before = [add(f"{name}, gradient{part}", before, kind=Kind.COMP, duration_us=took_us)]
            about = {"bytes": bucket.bytes, "collective": Collective.ALL_REDUCE}
            sums.append(add(f"{name}, sum{part}", before, kind=Kind.COMM_COLL, **about))
        before = [add(f"{name}, step", sums, kind=Kind.COMP, duration_us=round(step_us))]
    return found
