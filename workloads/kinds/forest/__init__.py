"""Synchronous schemes, along the trees of a forest that our engine runs."""

from workloads.kinds.forest.kind import KIND

__all__ = ["KIND"]
