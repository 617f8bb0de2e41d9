"""Weights that a distributor has for others. They go on when the scheduler says so, or as soon as they are here."""

from __future__ import annotations

from collections.abc import Callable

from testbed.workloads.kinds.fabric.processes.exchange import Floats
from testbed.workloads.kinds.fabric.processes.messages import Pass, Weights

Send = Callable[[int, Weights, Floats, float], None]
"""Sends weights to a node, at most so fast (bit/s)."""


class Passing:
    """What waits, by the node that it is for and by shard: either side of what has to meet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._here: dict[tuple[int, int], tuple[Weights, Floats]] = {}
        self._told: dict[tuple[int, int], Pass] = {}

    def take(self, node: int, note: Weights, floats: Floats) -> None:
        """Weights for a node are here."""
        self._here[node, note.shard] = note, floats
        self._match(node, note.shard)

    def tell(self, note: Pass) -> None:
        """The time has come."""
        self._told[note.target, note.shard] = note
        self._match(note.target, note.shard)

    def send_all(self) -> None:
        """Nobody says when any more, so now."""
        for node, shard in [*self._here]:
            self.tell(Pass(node, 0.0, 0.0, shard))

    def lose(self, node: int) -> None:
        """Nothing goes to a node any more."""
        self._here = {key: kept for key, kept in self._here.items() if key[0] != node}
        self._told = {key: kept for key, kept in self._told.items() if key[0] != node}

    def forget(self) -> None:
        """What is here is not needed any more, nor what was told of it."""
        self._here, self._told = {}, {}

    def _match(self, node: int, shard: int) -> None:
        if (node, shard) in self._here and (node, shard) in self._told:
            self._send(node, *self._here.pop((node, shard)), self._told.pop((node, shard)).rate_bps)
