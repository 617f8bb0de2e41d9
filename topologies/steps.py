"""Steps between nodes, counted breadth first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def steps_from(starts: Iterable[T], near: Callable[[T], Iterable[T]]) -> dict[T, int]:
    """Count the steps from the nearest of ``starts`` to each node that can be reached, the nearest first; ``near`` has
    the nodes that are one step away."""
    found = dict.fromkeys(starts, 0)
    todo = deque(found)
    while todo:
        here = todo.popleft()
        for other in near(here):
            if other not in found:
                found[other] = found[here] + 1
                todo.append(other)
    return found
