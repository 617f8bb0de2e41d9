"""Synchronous schemes on networks for which trees of all classes are too many."""

from testbed.workloads.kinds.rotation.kind import KIND

__all__ = ["KIND"]
