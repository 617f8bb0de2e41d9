"""Weights that a distributor passes on to others: when the scheduler says so, or as soon as they are here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from testbed.workloads.kinds.fabric.processes.messages import Pass, Weights
from testbed.workloads.serving.exchange import Floats

NO_FLOATS: Floats = np.empty(0, np.float32)
"""Stands for weights where none are computed."""
Send = Callable[[int, Weights, Floats, float], None]
"""Sends weights to a node, at most at the given rate (bit/s)."""


class Passing:
    """Weights that wait for the scheduler's order, and orders that wait for their weights, by node and shard."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._here: dict[tuple[int, int], tuple[Weights, Floats]] = {}
        self._told: dict[tuple[int, int], Pass] = {}

    def take(self, node: int, note: Weights, floats: Floats) -> None:
        """Take weights for a node, which have come."""
        self._here[node, note.shard] = note, floats
        self._match(node, note.shard)

    def tell(self, note: Pass) -> None:
        """Take the scheduler's order to pass weights on."""
        self._told[note.target, note.shard] = note
        self._match(note.target, note.shard)

    def send_all(self) -> None:
        """Pass on all weights now, because no scheduler is left to say when."""
        for node, shard in [*self._here]:
            self.tell(Pass(node, 0.0, 0.0, shard))

    def lose(self, node: int) -> None:
        """Forget all that was to go to a node."""
        self._here = {key: kept for key, kept in self._here.items() if key[0] != node}
        self._told = {key: kept for key, kept in self._told.items() if key[0] != node}

    def forget(self) -> None:
        """Forget the weights here, and the orders about them."""
        self._here, self._told = {}, {}

    def _match(self, node: int, shard: int) -> None:
        if (node, shard) in self._here and (node, shard) in self._told:
            self._send(node, *self._here.pop((node, shard)), self._told.pop((node, shard)).rate_bps)
