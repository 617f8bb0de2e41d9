"""Weights that several servers share, as one process keeps them that makes all of their updates again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.updates import Update, spans, versions

Floats = NDArray[np.float32]


class Parts:
    """The newest version of each part, and those older ones of which gradients are still to be computed.

    Attributes:
        servers: how many parts there are.
        spans: where they are.
        newest: float32[floats], the newest version of all parts.
    """

    def __init__(self, first: Floats, order: Sequence[Update], wanted: Iterable[int] = ()) -> None:
        """``first`` are the weights before the updates of ``order``, the servers' orders in one
        (:func:`workloads.updates.merged`). Versions that are ``wanted`` are kept for :meth:`at_version`, of all parts.
        """
        self.servers = 1 + max(update.server for update in order)
        self.spans = spans(len(first), self.servers)
        self.newest = first.copy()
        self._needed = versions(order)
        self._left = {whose: len(parts) for whose, parts in self._needed.items()}
        self._uses = [Counter(wanted) for _ in self.spans]
        for update in order:
            self._uses[update.server][update.version] += 1
        self._versions = [0] * self.servers
        self._kept: list[dict[int, Floats]] = [{} for _ in self.spans]
        for server in range(self.servers):
            self._keep(server)

    @property
    def least(self) -> int:
        """The version of the part that has had fewest updates."""
        return min(self._versions)

    def computed_on(self, update: Update, into: Floats) -> None:
        """Put the weights there that an update's gradient is computed on; once for all servers."""
        for server, version in self._needed[update.rank, update.iteration].items():
            into[slice(*self.spans[server])] = self._use(server, version)

    def at_version(self, version: int, into: Floats) -> None:
        """Put the version there that is the same of all parts; it was ``wanted``."""
        for server, span in enumerate(self.spans):
            into[slice(*span)] = self._use(server, version)

    def applied(self, update: Update) -> bool:
        """The newest weights of a server contain this update now. Returns whether those of all servers do."""
        self._versions[update.server] += 1
        self._keep(update.server)
        self._left[update.rank, update.iteration] -= 1
        return not self._left[update.rank, update.iteration]

    def _keep(self, server: int) -> None:
        version = self._versions[server]
        if self._uses[server][version]:
            self._kept[server][version] = self.newest[slice(*self.spans[server])].copy()

    def _use(self, server: int, version: int) -> Floats:
        self._uses[server][version] -= 1
        kept = self._kept[server]
        return kept[version] if self._uses[server][version] else kept.pop(version)
