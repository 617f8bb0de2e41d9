"""A parameter server that waits for nobody, or not for long."""

from testbed.workloads.kinds.asynchronous.kind import KIND

__all__ = ["KIND"]
