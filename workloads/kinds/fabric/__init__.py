"""MLfabric: a scheduler orders, sums and drops the updates of asynchronous workers (Viswanathan and Akella)."""

from testbed.workloads.kinds.fabric.kind import KIND

__all__ = ["KIND"]
