"""Updates that have come to all servers, where several have a shard of the weights each. Pure logic, no I/O.

A worker gets one version of all shards (MLfabric, section 10.2), so servers must agree on what each version is. The
scheduler decides it for all of them: it tells them in one order what may be applied, what is dropped, and who gets
weights. Each server applies its shard of an update when the scheduler knows that all shards are there. So whatever a
server is told finds each of them in the same state, and their journals are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class Commits:
    """The point to which the servers may go in the order of updates.

    Attributes:
        count: so many updates, from the first one on.
    """

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._there: Counter[int] = Counter()
        self.count = 0

    def arrived(self, members: Sequence[int], order: Sequence[int]) -> bool:
        """Note that a shard of these updates is at its server; return whether more may be applied than before."""
        self._there.update(members)
        before = self.count
        while self.count < len(order) and self._there[order[self.count]] == self._servers:
            self.count += 1
        return self.count > before
