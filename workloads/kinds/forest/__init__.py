"""The kind of synchronous schemes, along the trees of a forest that our engine runs."""

from testbed.workloads.kinds.forest.kind import KIND

__all__ = ["KIND"]
