"""The update of weights by one gradient, where each is a step of its own; and weights that several servers share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Span = tuple[int, int]
"""Where a part of the weights begins, and where it stops, in floats."""


@dataclass(frozen=True)
class Update:
    """One gradient: whose, of which of its iterations, and the version of the weights that it was computed on.

    A version is how many updates the weights contain. Where several servers each have a part of the weights, this is a
    gradient's part for one of them, with the version of that part.
    """

    rank: int
    iteration: int
    version: int
    server: int = 0


def spans(floats: int, servers: int) -> list[Span]:
    """The part of each server: contiguous, and none more than one float longer than another."""
    cuts = [floats * server // servers for server in range(servers + 1)]
    return list(pairwise(cuts))


def versions(order: Sequence[Update]) -> dict[tuple[int, int], dict[int, int]]:
    """By (rank, iteration), the version of each server's part that the gradient was computed on."""
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for update in order:
        found[update.rank, update.iteration][update.server] = update.version
    return found


def merged(orders: Sequence[Sequence[Update]]) -> list[Update]:
    """The orders of all servers in one, in which no update comes before a version that its gradient was computed on.

    Raises:
        ValueError: there is none: a gradient would have to be there before itself.
    """
    needed = versions([update for order in orders for update in order])
    done, merged = [0] * len(orders), list[Update]()
    while len(merged) < sum(map(len, orders)):
        before = len(merged)
        for server, order in enumerate(orders):
            while done[server] < len(order):
                update = order[done[server]]
                versions_needed = needed[update.rank, update.iteration]
                if any(done[other] < version for other, version in versions_needed.items()):
                    break
                merged.append(update)
                done[server] += 1
        if len(merged) == before:
            stuck = next(order[at] for order, at in zip(orders, done, strict=True) if at < len(order))
            raise ValueError(
                f"iteration {stuck.iteration} of worker {stuck.rank} was computed on weights that depend on it"
            )
    return merged
