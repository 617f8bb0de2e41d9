"""MLfabric-S: synchronous training whose sums go the ways that a scheduler plans."""

from testbed.workloads.kinds.fabric_sync.kind import KIND

__all__ = ["KIND"]
