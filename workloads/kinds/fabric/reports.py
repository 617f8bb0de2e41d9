"""Reports of a scheduler and of a server about transfers."""

from __future__ import annotations

from collections.abc import Collection

from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import Reports


class FabricReports(Reports[Fabric]):
    """Transfers, which the scheduler reports in the end, and steps of a server, which reports them as it goes."""

    def said_bytes(self, plan: Fabric) -> int:
        """Count the bytes with which the scheduler reports the transfers of an update, there and to a replica, and of
        weights."""
        return 1024 * len(plan.servers)

    def journals(self, plan: Fabric) -> Collection[str]:
        """Return the server, where a replica may take over."""
        return () if plan.replica is None else (plan.nodes[plan.server],)
