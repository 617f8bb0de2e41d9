"""Hybrid training: operators are held by some servers each, so outputs and gradients of outputs move, and sums."""

from testbed.workloads.kinds.hybrid.kind import KIND

__all__ = ["KIND"]
