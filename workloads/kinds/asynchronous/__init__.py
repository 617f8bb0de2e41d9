"""The kind of parameter servers that do not wait for workers, or not for long."""

from testbed.workloads.kinds.asynchronous.kind import KIND

__all__ = ["KIND"]
