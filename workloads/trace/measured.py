"""Iterations that were measured as a trace: what each rank computed, and the sums that followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from testbed.workloads.play.steps import BACKWARD, FORWARD, Steps
from testbed.workloads.trace.graph import Collective, Kind, Node

PHASES = {FORWARD: "forward", BACKWARD: "backward"}


class Iteration(NamedTuple):
    """Moments of an iteration of one rank (s): its beginning, its gradient, its sum, its end; and how long it had
    nothing to compute before it had its gradient."""

    start_s: float
    ready_s: float
    sum_s: float
    end_s: float
    waited_s: float = 0.0

    @property
    def computes_us(self) -> float:
        """For how long it computed its gradient."""
        return 1e6 * max(0.0, self.ready_s - self.start_s - self.waited_s)


class Bucket(NamedTuple):
    """A part of the gradient that is summed by itself; it is complete after the share ``due`` of the gradient's
    computing."""

    bytes: int
    due: float = 1.0


class _Nodes(list[Node]):
    """The nodes of a rank, numbered as they come."""

    def add(self, named: str, kind: Kind, after: Iterable[int] = (), **fields: Any) -> int:
        """Append a node; return its id."""
        self.append(Node(len(self), named, kind, after=tuple(after), stream=(False, 0), **fields))
        return len(self) - 1

    def sum(self, named: str, after: Iterable[int], nbytes: int, group: str = "") -> int:
        """Append an AllReduce; return its id."""
        return self.add(named, Kind.COMM_COLL, after, bytes=nbytes, collective=Collective.ALL_REDUCE, group=group)

    def step(self, named: str, after: Iterable[int], one: Iteration) -> list[int]:
        """Append the end of an iteration; return what the next one waits for."""
        took_us = round(1e6 * max(0.0, one.end_s - one.sum_s))
        return [self.add(f"{named}, step", Kind.COMP, after, duration_us=took_us)]


def collectives(iterations: Iterable[Iteration], buckets: Sequence[Bucket]) -> list[Node]:
    """Return the nodes of a rank: for each iteration one that computes each bucket, the bucket's sum, which waits for
    nothing else, and one for the step, which waits for all of them."""
    found = _Nodes()
    before: list[int] = []
    for number, one in enumerate(iterations):
        name, sums, done_us = f"iteration {number}", [], 0
        for place, bucket in enumerate(buckets):
            part = "" if len(buckets) == 1 else f" of bucket {place}"
            took_us = round(one.computes_us * bucket.due) - done_us
            done_us += took_us
            before = [found.add(f"{name}, gradient{part}", Kind.COMP, before, duration_us=took_us)]
            sums.append(found.sum(f"{name}, sum{part}", before, bucket.bytes))
        before = found.step(name, sums, one)
    return found


def passes(rank: int, iterations: Iterable[Iteration], steps: Steps, sums: Mapping[str, int]) -> list[Node]:
    """Return the nodes of a rank that holds a part of the model: for each iteration its passes, with a send or a
    receive for each message to or from another rank, then the sum of each of its groups, and the step.

    The time for which it computed is divided among passes by their shares of the pace.

    Args:
        steps: of all ranks; those of each in an order that works.
        sums: bytes of the sums, by the names of their groups.
    """
    found = _Nodes()
    own = np.flatnonzero(steps.rank == rank).tolist()
    shares = steps.share[own] if steps.share[own].any() else np.ones(len(own))
    ends, takers = steps.ends.tolist(), steps.taker.tolist()
    sizes = steps.message_bytes.astype(np.int64).tolist()
    given: dict[int, list[int]] = defaultdict(list)  # by step, messages
    received = []
    for number, giver in enumerate(steps.giver.tolist()):
        src, dst = ends[number]
        if src == rank:
            given[giver].append(number)
        elif dst == rank:
            received.append(number)
    before: list[int] = []
    for iteration, one in enumerate(iterations):
        name = f"iteration {iteration}"
        needed: dict[int, list[int]] = defaultdict(list)  # by step, nodes
        for number in received:
            src, _ = ends[number]
            about = {"bytes": sizes[number], "peer": src, "tag": number}
            needed[takers[number]].append(found.add(f"{name}, from rank {src}", Kind.COMM_RECV, before, **about))
        computed = []
        for at, share in zip(own, shares / shares.sum(), strict=True):
            took_us, way = round(one.computes_us * share), PHASES[steps.phase[at]]
            computed.append(found.add(f"{name}, {way}", Kind.COMP, [*before, *needed[at]], duration_us=took_us))
            for number in given[at]:
                _, dst = ends[number]
                if dst == rank:
                    needed[takers[number]].append(computed[-1])
                else:
                    about = {"bytes": sizes[number], "peer": dst, "tag": number}
                    found.add(f"{name}, to rank {dst}", Kind.COMM_SEND, computed[-1:], **about)
            if (then := int(steps.then[at])) >= 0:
                needed[then].append(computed[-1])
        summed = [found.sum(f"{name}, sum of group {group}", computed, sums[group], group) for group in sums]
        before = found.step(name, summed or computed or before, one)
    return found
