"""Programs that synchronise by themselves, of which nothing is known."""

from workloads.kinds.command.kind import KIND

__all__ = ["KIND"]
