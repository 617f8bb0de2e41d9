"""Weights that several servers share: the part of each, and how one process makes all of their updates again.

Each server has an order of updates of its own. The orders are merged into one that a process can follow; of each part
it keeps the newest version, and those older ones of which gradients are still to be computed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.workloads.learning.updates import Update

Floats = NDArray[np.float32]
Span = tuple[int, int]
"""Span of a part of the weights, in floats: its first one, and the one after its last."""


def spans(floats: int, servers: int) -> list[Span]:
    """Return the part of each server: contiguous, and none more than one float longer than another."""
    cuts = [floats * server // servers for server in range(servers + 1)]
    return list(pairwise(cuts))


def check(scheme: str, servers: int, tensor_sizes: Sequence[int]) -> None:
    """Return only if each server of a scheme has a part of the weights; no sizes are those of any model.

    Raises:
        SchemeError: there are fewer floats than servers.
    """
    floats = sum(tensor_sizes)
    if tensor_sizes and servers > floats:
        raise SchemeError(
            f"{scheme} has {servers} servers for a model of {floats:,} floats",
            fix=f"give servers {up_to(floats)}, so that each has a part of the weights",
        )


def up_to(most: int) -> str:
    """Word the numbers that are allowed, from 1 on."""
    return "1" if most == 1 else f"1 to {most:,}"


def versions(order: Sequence[Update]) -> dict[tuple[int, int], dict[int, int]]:
    """Return for each (rank, iteration) the version of each server's part that the gradient was computed on."""
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for update in order:
        found[update.rank, update.iteration][update.server] = update.version
    return found


def merged(orders: Sequence[Sequence[Update]]) -> list[Update]:
    """Merge the orders of all servers into one, in which no update comes before a version that its gradient was
    computed on.

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


class Parts:
    """The newest version of each part, and those older ones of which gradients are still to be computed.

    Attributes:
        servers: how many parts there are.
        spans: where they are.
        newest: float32[floats], the newest version of all parts.
    """

    def __init__(self, first: Floats, order: Sequence[Update], wanted: Iterable[int] = ()) -> None:
        """Set up; ``first`` are the weights before the updates of ``order``, the servers' orders in one
        (:func:`testbed.workloads.learning.parts.merged`). Versions that are ``wanted`` are kept for :meth:`at_version`,
        of all parts."""
        self.servers = 1 + max(update.server for update in order)
        self.spans = spans(len(first), self.servers)
        self.newest = first.copy()
        self._needed = versions(order)
        self._left = {whose: len(parts) for whose, parts in self._needed.items()}
        self._uses = [Counter(wanted) for _ in self.spans]
        for update in order:
            self._uses[update.server][update.version] += 1
        self._gradients: dict[tuple[int, int], Floats] = {}
        self._versions = [0] * self.servers
        self._kept: list[dict[int, Floats]] = [{} for _ in self.spans]
        for server in range(self.servers):
            self._keep(server)

    @property
    def least(self) -> int:
        """The version of the part that has had fewest updates."""
        return min(self._versions)

    def gradient(self, update: Update, compute: Callable[[Update, Floats], Floats]) -> Floats:
        """Return the whole gradient of which an update is a part; ``compute`` makes it from the weights that it was
        computed on, once for all servers."""
        whose = update.rank, update.iteration
        if whose not in self._gradients:
            self._gradients[whose] = compute(update, self._mixed(self._needed[whose]))
        return self._gradients[whose]

    def applied(self, update: Update) -> int | None:
        """Note that the newest weights of a server contain this update now. Return :attr:`least` if it is another one
        than before."""
        before = self.least
        self._versions[update.server] += 1
        self._keep(update.server)
        whose = update.rank, update.iteration
        self._left[whose] -= 1
        if not self._left[whose]:
            del self._gradients[whose]
        return self.least if self.least > before else None

    def at_version(self, version: int) -> Floats:
        """Return the weights of which all parts have this version; it was ``wanted``."""
        return self._mixed(dict.fromkeys(range(self.servers), version))

    def _mixed(self, versions: Mapping[int, int]) -> Floats:
        found = np.empty_like(self.newest)
        for server, version in versions.items():
            found[slice(*self.spans[server])] = self._use(server, version)
        return found

    def _keep(self, server: int) -> None:
        version = self._versions[server]
        if self._uses[server][version]:
            self._kept[server][version] = self.newest[slice(*self.spans[server])].copy()

    def _use(self, server: int, version: int) -> Floats:
        self._uses[server][version] -= 1
        kept = self._kept[server]
        return kept[version] if self._uses[server][version] else kept.pop(version)
