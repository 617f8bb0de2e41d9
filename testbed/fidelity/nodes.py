"""Nodes that died, and whether somebody had asked for that."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.recovery.deaths import sentence, unasked

ABOUT = About(
    "nodes",
    sees="a node that died although the spec did not kill it, while the others went on",
    misses="why it died",
)


def checks(seen: Seen) -> Iterator[Check]:
    if not seen.course.is_whole:
        yield judge(sentence(seen.course), unasked(seen.job, seen.course))


def judge(told: str, unasked: int) -> Check:
    """Judge deaths of nodes, after which the others went on; ``unasked`` is how many of them the spec did not kill."""
    return Check(ABOUT.name, float(unasked), 0.0, "nodes lost unasked", not unasked, told)
