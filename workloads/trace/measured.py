"""Iterations that were measured as a trace: what each rank computed, and the sum that followed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from testbed.workloads.trace.graph import Collective, Kind, Node


class Iteration(NamedTuple):
    """Moments of an iteration of one rank (s): its beginning, its gradient, its sum, its end."""

    start_s: float
    ready_s: float
    sum_s: float
    end_s: float


def collectives(iterations: Iterable[Iteration], sum_bytes: int) -> list[Node]:
    """Return the nodes of a rank: for each iteration one that computes, a sum, and one for the step."""
    found: list[Node] = []

    def add(node: Node) -> None:
        found.append(node._replace(id=len(found), after=(len(found) - 1,) if found else (), stream=(False, 0)))

    for number, one in enumerate(iterations):
        computes_us, step_us = (
            round(1e6 * max(0.0, took_s)) for took_s in (one.ready_s - one.start_s, one.end_s - one.sum_s)
        )
        add(Node(0, f"iteration {number}, gradient", Kind.COMP, duration_us=computes_us))
        add(Node(0, f"iteration {number}, sum", Kind.COMM_COLL, bytes=sum_bytes, collective=Collective.ALL_REDUCE))
        add(Node(0, f"iteration {number}, step", Kind.COMP, duration_us=step_us))
    return found
