"""The kind of PHub and PBox: a parameter server with many NICs, whose cores take the step (PHub thesis, chapters 2 and
3)."""

from testbed.workloads.kinds.phub.kind import KIND

__all__ = ["KIND"]
