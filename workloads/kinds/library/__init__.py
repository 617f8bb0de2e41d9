"""Other people's libraries in place of our engine, unchanged."""

from testbed.workloads.kinds.library.kind import KIND

__all__ = ["KIND"]
