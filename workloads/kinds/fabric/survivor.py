"""Losses that schemes with scheduled transfers survive."""

from __future__ import annotations

from collections.abc import Collection

from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import Survivor

MOST_SAVED_BYTES = 200
"""Limit on the bytes of an update in the JSON of a checkpoint: two shares with up to 24 characters each, its number
twice, the version that it was computed on and the one that it changed, sender and size, and the punctuation around
them."""


class FabricSurvivor(Survivor[Fabric]):
    """Workers, daemons, a scheduler, and a server, which may have a replica. Several servers survive no loss: one of
    them may have a shard of an update that another one never gets."""

    def survives(self, plan: Fabric) -> Collection[str]:
        """Return all processes but the server, where it has no replica; with a replica, the server too, if no other
        process but the replica is lost."""
        if plan.further_servers:
            return ()
        alone = {plan.nodes[plan.server]} if plan.replica is None else set()
        return {process.name for process in plan.processes} - alone

    def returns(self, plan: Fabric) -> Collection[str]:
        """Return the server, where it is the only one and has no replica."""
        if plan.replica is not None or plan.further_servers:
            return ()
        return (plan.nodes[plan.server],)

    def saved_bytes(self, plan: Fabric, iterations: int) -> int:
        """Bound the journal of the server, and the record of what came (:class:`.processes.returned.Saved`)."""
        return MOST_SAVED_BYTES * (1 + iterations * len(plan.workers))
