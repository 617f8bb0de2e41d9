"""Synchronous schemes whose trees change in mid-run: a controller tells plans, and all workers switch at once."""

from testbed.workloads.kinds.tuned.kind import KIND

__all__ = ["KIND"]
