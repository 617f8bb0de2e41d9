"""Ports of the connections between a trial's processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from testbed.workloads.kinds.process import Process

SYNC_PORT = 10_000
"""First port of connections, below Linux's ephemeral range (32768)."""


class Ports:
    """Ports at which processes listen, each for one other process: of two that are connected, the one whose node has
    the higher index listens.

    The first process of each node that has connections is known by its node's index, and listens at
    :data:`SYNC_PORT` plus the index of the node that opens the connection. A connection of another process has a port
    of its own behind all of these. So no two listeners of a host have the same.

    Attributes:
        range: all ports at which processes may listen.
    """

    def __init__(self, processes: Mapping[str, Process], nodes: int) -> None:
        first: dict[int, str] = {}
        for process in processes.values():
            if process.meets:
                first.setdefault(process.node, process.name)
        self._first, self._further = first, dict[tuple[str, str], int]()
        used: Counter[int] = Counter()
        if any(process.meets and first[process.node] != process.name for process in processes.values()):
            for process in processes.values():
                for other in map(processes.__getitem__, process.meets):
                    if process.node < other.node and not self._are_first(process, other):
                        self._further[process.name, other.name] = SYNC_PORT + nodes + used[other.node]
                        used[other.node] += 1
        self.range = range(SYNC_PORT, SYNC_PORT + nodes + max(used.values(), default=0))

    def _are_first(self, *processes: Process) -> bool:
        return all(self._first[process.node] == process.name for process in processes)

    def of(self, process: Process, other: Process) -> int:
        """Return the port of the connection between two processes that meet. They are on different nodes: processes of
        one node meet in shared memory, or through its file system."""
        opener, listener = sorted((process, other), key=lambda end: end.node)
        return self._further.get((opener.name, listener.name), SYNC_PORT + opener.node)
